//! `svclab mutate`: mutated rules, and the tests that detect them.

use std::num::NonZeroUsize;

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment, head};
use super::lab_args::{SubjectArgs, end};
use super::matrix::{self, Compared, Outcome, Outcomes};
use super::numbers::{count, seed};
use svclab::infer::Connections;
use svclab::mutate::{Detail, Mutants, Options, json, mutate, page, summary};
use svclab::scenario::Scenario;
use svclab::text::path_text;
use svclab::worker::Kind;

/// Mutate a scenario's rules, one change at a time, and report whether its tests and `svclab verify` detect it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Try a random sample of N mutants of each scenario.
    #[arg(long, value_name = "N", value_parser = count)]
    sample: Option<NonZeroUsize>,
    /// The seed of the random sample.
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = seed)]
    seed: u64,
    /// List every mutant that `svclab verify` detects and the tests do not, not just one of each kind.
    #[arg(long)]
    missed: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let (scenarios, reports) = args.subject.open(Connections::LeftOut, console)?;
    let (backend, format) = (args.subject.backend(), args.subject.format);
    args.kernels
        .only_as_text(format == Format::Text && !args.subject.is_reported())
        .map_err(|failure| failure.report(console))?;
    let options = Options {
        jobs: args.subject.labs.jobs,
        backend,
        sample: args.sample.map(NonZeroUsize::get),
        seed: args.seed,
        worker: None,
    };
    if args.kernels.are_several() {
        return on_kernels(&scenarios, &options, args, console);
    }
    let location = args.kernels.location(Kind::Mutate, backend, console)?;
    let options = Options { worker: Some(location.clone()), ..options };
    if format == Format::Text {
        head(Some(&location), console);
    }
    let finished = |mutants: &Mutants| {
        if format == Format::Text {
            console.text(shown(mutants, args, console));
        }
    };
    let all = mutate(&scenarios, &options, &finished);
    if format == Format::Json {
        console.json("mutate", &environment(Some(&location), backend), json(&all))?;
    } else {
        console.text(summary(&all, console.settings()));
    }
    let written = reports.write("mutate", &environment(Some(&location), backend), json(&all), console);
    Ok(exit(&all).with_reports(written))
}

/// Renders the mutants of a scenario; nothing with `--quiet` if none survived.
fn shown(mutants: &Mutants, args: &Args, console: &Console) -> String {
    if console.quiet && mutants.holds() {
        return String::new();
    }
    let detail = Detail { all_missed: args.missed, sample: args.sample.map(NonZeroUsize::get) };
    page(mutants, detail, console.settings())
}

fn exit(all: &[Mutants]) -> Exit {
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    end(troubles, all.iter().all(Mutants::holds))
}

/// Tries mutants on several kernels, one after the other.
fn on_kernels(scenarios: &[Scenario], options: &Options, args: &Args, console: &Console) -> Result<Exit, Exit> {
    let all = args.kernels.on_each(Kind::Mutate, options.backend, console, |location| {
        Ok(mutate(scenarios, &Options { worker: Some(location), ..options.clone() }, &|_| {}))
    })?;
    let page = |all: &Vec<Mutants>| {
        all.iter().map(|mutants| shown(mutants, args, console)).collect::<String>() + &summary(all, console.settings())
    };
    let compared = Compared { what: "mutants", missing: "not tried" };
    Ok(matrix::show(&all, compared, console, |all| outcomes(all), page, |all| exit(all)))
}

/// Returns the results of mutants, by scenario and change.
fn outcomes(all: &[Mutants]) -> Outcomes<(usize, String)> {
    let of_scenario = |(number, mutants): (usize, &Mutants)| {
        let file = path_text(&mutants.file);
        let outcome = |of: &str, result: &str| {
            let name = if of.is_empty() { file.clone() } else { format!("{file}: {of}") };
            ((number, of.to_owned()), Outcome { of: name, result: result.to_owned() })
        };
        match &mutants.result {
            Err(_) => vec![outcome("", "ERROR")],
            Ok(tried) => tried.mutants.iter().map(|mutant| outcome(&mutant.to_string(), mutant.words())).collect(),
        }
    };
    all.iter().enumerate().flat_map(of_scenario).collect()
}
