//! The result of `svclab dump lint` for machines. `svclab schema dump-lint` describes every field.

use std::borrow::Cow;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::finding;
use super::severity::Severity;
use crate::evidence::json::Head;

/// What is wrong in an input.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// How many rules were read.
    rules: usize,
    /// How many lines could not be read; `svclab dump show` lists them.
    unread: usize,
    /// The findings, most severe first.
    findings: Vec<Finding<'a>>,
}

/// Something wrong, or worth knowing.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Finding<'a> {
    /// Its kind, a name that stays the same; `--allow` takes it.
    id: &'static str,
    /// Its severity.
    severity: Severity,
    /// Where it is.
    place: Place<'a>,
    /// What was found.
    message: &'a str,
    /// What it does to which traffic.
    effect: &'a str,
    /// A known issue with the same cause; `null` if there is none.
    issue: Option<&'static str>,
    /// What to ask a reporter for.
    ask: Cow<'static, str>,
}

/// Where a finding is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    /// The file, where the input has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The line, from 1.
    line: usize,
}

impl<'a> Document<'a> {
    /// The document of findings in an input.
    pub fn of(path: &Path, rules: usize, unread: usize, findings: &'a [finding::Finding]) -> Self {
        let findings = findings.iter().map(|finding| Finding {
            id: finding.id,
            severity: finding.severity,
            place: Place { file: finding.place.file.as_deref(), line: finding.place.line },
            message: &finding.message,
            effect: &finding.effect,
            issue: finding.issue(),
            ask: finding.ask(),
        });
        Self { head: Head::new("dump-lint", path), rules, unread, findings: findings.collect() }
    }
}
