//! Reads JSON documents into [`Results`].

use serde::Deserialize;
use serde_json::Value;

use super::model::{Results, Suite};
use super::{from_diff, from_mutate, from_verify};
use crate::environment::{Environment, SCHEMA_VERSION};
use crate::report::ShardOf;

/// The reason why a text is not a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not svclab's JSON.
    #[error("not a JSON report of svclab: {0}")]
    Json(#[from] serde_json::Error),
    /// It has another schema version.
    #[error("written by another version of svclab: schemaVersion {0}, while this one reads {SCHEMA_VERSION}")]
    Version(u64),
    /// It is the output of a command without tests.
    #[error("the output of `svclab {0}`, not of run, verify, mutate or diff")]
    Command(String),
}

/// A document, before its result is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) command: String,
    #[serde(flatten)]
    pub(super) environment: Environment,
    pub(super) result: Value,
}

/// The fields of the result of `run`, in addition to its scenarios.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whole {
    seconds: Option<f64>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    shard: Option<ShardOf>,
    #[serde(default)]
    counts: Left,
    /// The scenarios of all commands except `diff`, whose result is one comparison.
    #[serde(default)]
    scenarios: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Left {
    filtered: usize,
    not_started: usize,
}

impl Document {
    /// Reads the envelope.
    pub(super) fn read(text: &str) -> Result<Self, ReadError> {
        let value: Value = serde_json::from_str(text)?;
        match value.get("schemaVersion").and_then(Value::as_u64) {
            Some(version) if version != u64::from(SCHEMA_VERSION) => Err(ReadError::Version(version)),
            _ => Ok(serde_json::from_value(value)?),
        }
    }
}

impl Results {
    /// Reads the JSON report of `run`, `verify`, `mutate` or `diff`.
    ///
    /// # Errors
    ///
    /// If the text is not such a report, or has another version.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        Self::of(Document::read(text)?)
    }

    pub(super) fn of(document: Document) -> Result<Self, ReadError> {
        let Document { command, environment, result, .. } = document;
        let whole: Whole = serde_json::from_value(result.clone())?;
        let suites = match command.as_str() {
            "diff" => from_diff::suites(result)?,
            "run" => serde_json::from_value::<Vec<Suite>>(whole.scenarios)?,
            "verify" => from_verify::suites(whole.scenarios)?,
            "mutate" => from_mutate::suites(whole.scenarios)?,
            _ => return Err(ReadError::Command(command)),
        };
        let Whole { seconds, seed, shard, counts, .. } = whole;
        let seconds = seconds.or_else(|| suites.iter().map(|suite| suite.seconds).sum());
        let (filtered, not_started) = (counts.filtered, counts.not_started);
        Ok(Self { command, environment, shard, seed, seconds, filtered, not_started, suites })
    }
}
