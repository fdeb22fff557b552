//! `svclab doctor`: checks whether this machine can run labs.

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment, head};
use super::lab_args::report_failure;
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
    if args.kernels.comparing(args.format == Format::Text).map_err(|failure| failure.report(console))? {
        return on_kernels(args, console);
    }
    let location = args.kernels.other(Kind::Doctor, Backend::System, console)?;
    let examination = match &location {
        Some(location) => doctor::examine_in(location).map_err(|failed| report_failure(&failed, console))?,
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
        doctor::examine_in(&location).map_err(|failed| report_failure(&failed, console))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without privileges a kernel has fewer groups of checks: the others are compared all the same.
    #[test]
    fn checks_are_compared_by_name() {
        let check = |name: &str, found: &str| Check {
            name: name.to_owned(),
            status: Status::Lacking,
            found: found.to_owned(),
            fix: None,
        };
        let group = |name: &'static str, checks: Vec<Check>| Group { name: name.into(), checks };
        let limits = |found: &str| group("limits", vec![check("net.core.rmem_max", found)]);
        let whole = Examination { groups: vec![group("kernel", vec![check("veth", "loaded")]), limits("1")] };
        let few = Examination { groups: vec![limits("2")] };
        let [whole, few] = [whole, few].map(|examination| outcomes(&examination));
        let key = ("limits".to_owned(), "net.core.rmem_max".to_owned());
        assert_eq!((whole.len(), few.len()), (2, 1));
        assert_eq!((whole[&key].result.as_str(), few[&key].result.as_str()), ("1", "2"));
    }
}
