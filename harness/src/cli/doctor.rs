//! `svclab doctor`: whether this machine can run labs.

use super::Exit;
use super::console::Console;
use super::dump::Format;
use svclab::Backend;
use svclab::doctor::{self, Examination};

/// Check whether this machine can run labs, and print a fix for whatever is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let examination = doctor::examine();
    if args.format == Format::Json {
        if let Err(exit) = console.json("doctor", Backend::System, to_json(&examination)) {
            return exit;
        }
    } else {
        let shown = if console.quiet { examination.faults() } else { examination.clone() };
        if !shown.groups.is_empty() {
            console.text(doctor::render(&shown, console.settings()));
        }
    }
    if examination.is_enough() { Exit::Held } else { Exit::Environment }
}

/// The verdict and the checks.
fn to_json(examination: &Examination) -> serde_json::Value {
    serde_json::json!({ "enough": examination.is_enough(), "groups": examination.groups })
}
