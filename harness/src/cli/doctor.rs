//! `svclab doctor`: checks whether this machine can run labs.

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment, head};
use super::lab_args::trouble;
use super::matrix::{self, Compared, Outcome, Outcomes};
use svclab::Backend;
use svclab::doctor::{self, Check, Examination, Group, Status};
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
    args.kernels.only_as_text(args.format == Format::Text).map_err(|failure| failure.report(console))?;
    if args.kernels.are_several() {
        return on_kernels(args, console);
    }
    let location = args.kernels.other(Kind::Doctor, Backend::System, console)?;
    let examination = match &location {
        Some(location) => doctor::examine_in(location).map_err(|failed| trouble(&failed, console))?,
        None => doctor::examine(),
    };
    if args.format == Format::Json {
        console.json("doctor", &environment(location.as_ref(), Backend::System), to_json(&examination))?;
    } else {
        head(location.as_ref(), console);
        console.text(page(&examination, console));
    }
    Ok(exit(&examination))
}

/// Examines several kernels, one after the other.
fn on_kernels(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let all = args.kernels.on_each(Kind::Doctor, Backend::System, console, |location| {
        doctor::examine_in(&location).map_err(|failed| trouble(&failed, console))
    })?;
    let compared = Compared { what: "checks", missing: "not checked" };
    Ok(matrix::show(&all, compared, console, outcomes, |examination| page(examination, console), exit))
}

/// Returns the results of checks. Their positions depend on what a kernel permits.
fn outcomes(examination: &Examination) -> Outcomes<(String, String)> {
    let of_group = |Group { name: group, checks, .. }: &Group| {
        let outcome = |Check { name, status, found, .. }: &Check| {
            let result = if *status == Status::Ok { "ok".to_owned() } else { found.clone() };
            ((group.to_string(), name.clone()), Outcome { of: name.clone(), result })
        };
        checks.iter().map(outcome).collect::<Vec<_>>()
    };
    examination.groups.iter().flat_map(of_group).collect()
}

/// Renders the checks; with `--quiet` only those that failed.
fn page(examination: &Examination, console: &Console) -> String {
    let shown = if console.quiet { examination.faults() } else { examination.clone() };
    if shown.groups.is_empty() { String::new() } else { doctor::render(&shown, console.settings()) }
}

fn exit(examination: &Examination) -> Exit {
    if examination.is_enough() { Exit::Held } else { Exit::Environment }
}

/// Returns the verdict and the checks.
fn to_json(examination: &Examination) -> serde_json::Value {
    serde_json::json!({ "enough": examination.is_enough(), "groups": examination.groups })
}
