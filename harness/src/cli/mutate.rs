//! `svclab mutate`: rules with one thing wrong, and who notices.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::Exit;
use super::console::Console;
use super::inputs::{InputArgs, load_all};
use super::labs::{Format, LabArgs, end, prepare};
use svclab::mutate::{Mutants, Options, Style, json, mutate, summary, table};

/// Make one mistake after the other in a scenario's rules, and see whether its tests and `svclab verify` notice.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders to look for them in; or files with plain Kubernetes objects, or with all rules of a
    /// node, as `iptables-save` or `nft list ruleset` shows them. The rules are those of the cluster as it is at first.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// Try no more than N mutants of each scenario, chosen by chance.
    #[arg(long, value_name = "N")]
    sample: Option<NonZeroUsize>,
    /// What that chance starts from: the same seed chooses the same mutants.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// List all mistakes that `svclab verify` finds and the scenario's tests do not, not just one of a kind.
    #[arg(long)]
    missed: bool,
    /// How the result is written; JSON comes once, when all is done.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let scenarios = load_all(&args.paths, args.inputs.reach(), console)?;
    prepare(console)?;
    let options = Options {
        jobs: args.labs.jobs,
        backend: args.labs.backend.into(),
        sample: args.sample.map(NonZeroUsize::get),
        seed: args.seed,
    };
    let style = Style { all_missed: args.missed };
    let finished = |mutants: &Mutants| {
        if args.format == Format::Text && !(console.quiet && mutants.holds()) {
            console.text(table(mutants, style));
        }
    };
    let all = mutate(&scenarios, &options, &finished);
    if args.format == Format::Json {
        console.json(args.labs.backend.into(), json(&all))?;
    } else {
        console.text(summary(&all));
    }
    Ok(end(all.iter().filter_map(|one| one.result.as_ref().err()), all.iter().all(Mutants::holds)))
}
