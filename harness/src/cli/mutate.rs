//! `svclab mutate`: mutated rules, and the tests that detect them.

use std::num::NonZeroUsize;

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment};
use super::lab_args::{SubjectArgs, end};
use super::numbers::{count, seed};
use svclab::infer::Connections;
use svclab::mutate::{Detail, Mutants, Options, json, mutate, page, summary};
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
    let location = args.kernels.location(Kind::Mutate, backend, console)?;
    let options = Options {
        jobs: args.subject.labs.jobs,
        backend,
        sample: args.sample.map(NonZeroUsize::get),
        seed: args.seed,
        worker: Some(location.clone()),
    };
    let detail = Detail { all_missed: args.missed, sample: options.sample };
    let settings = console.settings();
    let finished = |mutants: &Mutants| {
        if format == Format::Text && !(console.quiet && mutants.holds()) {
            console.text(page(mutants, detail, settings));
        }
    };
    let all = mutate(&scenarios, &options, &finished);
    if format == Format::Json {
        console.json("mutate", &environment(Some(&location), backend), json(&all))?;
    } else {
        console.text(summary(&all, settings));
    }
    let written = reports.write("mutate", &environment(Some(&location), backend), json(&all), console);
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    Ok(end(troubles, all.iter().all(Mutants::holds)).with_reports(written))
}
