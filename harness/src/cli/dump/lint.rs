//! `svclab dump lint`: findings in a dump.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use super::evidence;
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::format::Format;
use svclab::lint::{CATALOG, Finding, Severity, json, lint, render};

/// Find problems in rules, and in the objects, connections and settings that accompany them.
///
/// Each finding has its position, its effect on traffic, a reported issue with the same cause, and the information to request from the
/// reporter. Exits with 1 if a finding has the severity of `--fail-on` or a higher one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file, folder or archive (tar, tar.gz, zip); `-` for standard input.
    input: PathBuf,
    /// The lowest severity that makes the exit code 1.
    #[arg(long, value_enum, default_value = "warning", value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Ignore findings with this ID; may be repeated.
    #[arg(long, value_name = "ID", value_parser = PossibleValuesParser::new(CATALOG.map(|entry| entry.id)), hide_possible_values = true)]
    allow: Vec<String>,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Traffic fails, or goes where it must not.
    Error,
    /// Traffic may fail, or rules are not as kube-proxy writes them.
    Warning,
    /// Any finding.
    Info,
    /// No finding: the exit code is always 0.
    Never,
}

impl FailOn {
    fn fails(self, finding: &Finding) -> bool {
        match self {
            Self::Error => finding.severity == Severity::Error,
            Self::Warning => finding.severity <= Severity::Warning,
            Self::Info => true,
            Self::Never => false,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (path, evidence) = evidence(std::slice::from_ref(&args.input))?;
    if evidence.pieces.is_empty() {
        return Err(super::unrecognised(&evidence));
    }
    let mut findings = lint(&evidence);
    findings.retain(|finding| !args.allow.iter().any(|id| id == finding.id));
    let (rules, unread) = (evidence.rules(), evidence.unread.len());
    match args.format {
        Format::Text => console.text(render(&path, rules, unread, &findings, console.settings())),
        Format::Json => super::print(&json::Document::of(&path, rules, unread, &findings), console)?,
    }
    Ok(if findings.iter().any(|finding| args.fail_on.fails(finding)) { Exit::Failed } else { Exit::Held })
}
