//! `svclab mutate`: mutated rules, and the tests that detect them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::Exit;
use super::console::Console;
use super::inputs::{InputArgs, load_all};
use super::labs::{Format, LabArgs, end, own_program, prepare};
use super::numbers::{count, seed};
use super::reports::{ReportArgs, Reports};
use svclab::environment::Environment;
use svclab::mutate::{Mutants, Options, Style, json, mutate, page, summary};

/// Mutate a scenario's rules, one change at a time, and report whether its tests and `svclab verify` detect it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders that contain them; or files with Kubernetes objects, or with all rules of a node as
    /// printed by `iptables-save` or `nft list ruleset`. The rules are those of the initial state.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// Try a random sample of N mutants of each scenario.
    #[arg(long, value_name = "N", value_parser = count)]
    sample: Option<NonZeroUsize>,
    /// The seed of the random sample.
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = seed)]
    seed: u64,
    /// List every mutant that `svclab verify` detects and the tests do not, not just one of each kind.
    #[arg(long)]
    missed: bool,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    reports: ReportArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let scenarios = load_all(&args.paths, args.inputs.reach(), console)?;
    let reports = Reports::of(&args.reports, &scenarios, console)?;
    prepare(console)?;
    let options = Options {
        jobs: args.labs.jobs,
        backend: args.labs.backend.into(),
        sample: args.sample.map(NonZeroUsize::get),
        seed: args.seed,
        worker: Some(own_program()),
    };
    let style = Style { all_missed: args.missed, sample: options.sample };
    let settings = console.settings();
    let finished = |mutants: &Mutants| {
        if args.format == Format::Text && !(console.quiet && mutants.holds()) {
            console.text(page(mutants, style, settings));
        }
    };
    let all = mutate(&scenarios, &options, &finished);
    if args.format == Format::Json {
        console.json("mutate", args.labs.backend.into(), json(&all))?;
    } else {
        console.text(summary(&all, settings));
    }
    let written = reports.write("mutate", &Environment::of(args.labs.backend.into()), json(&all), console);
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    Ok(end(troubles, all.iter().all(Mutants::holds)).with_reports(written))
}
