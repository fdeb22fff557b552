//! `svclab doctor`: checks whether this machine can run labs.

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment};
use super::lab_args::trouble;
use svclab::Backend;
use svclab::doctor::{self, Examination};
use svclab::worker::Kind;

/// Check whether this machine can run labs, and print fixes for what is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    kernels: KernelArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    examined(args, console).unwrap_or_else(|exit| exit)
}

fn examined(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let location = args.kernels.other(Kind::Doctor, Backend::System, console)?;
    let examination = match &location {
        Some(location) => doctor::examine_in(location).map_err(|failed| trouble(&failed, console))?,
        None => doctor::examine(),
    };
    if args.format == Format::Json {
        console.json("doctor", &environment(location.as_ref(), Backend::System), to_json(&examination))?;
    } else {
        let shown = if console.quiet { examination.faults() } else { examination.clone() };
        if !shown.groups.is_empty() {
            console.text(doctor::render(&shown, console.settings()));
        }
    }
    Ok(if examination.is_enough() { Exit::Held } else { Exit::Environment })
}

/// Returns the verdict and the checks.
fn to_json(examination: &Examination) -> serde_json::Value {
    serde_json::json!({ "enough": examination.is_enough(), "groups": examination.groups })
}
