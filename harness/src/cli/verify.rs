//! `svclab verify`: every vantage point against every service address, by three sources.

use std::path::PathBuf;

use super::Exit;
use super::console::Console;
use super::inputs::{InputArgs, load_all};
use super::labs::{Format, LabArgs, end, prepare};
use svclab::verify::{self, Options, Verified};

/// Hold what is promised, what the rules say and what the kernel does against each other, for every service address.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders to look for them in; or files with plain Kubernetes objects, or with all rules of a
    /// node, as `iptables-save` or `nft list ruleset` shows them. Tests are left aside: the cluster is verified as it is at first.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// A flow that meets a rule which is not modelled is no failure.
    #[arg(long)]
    allow_unknown: bool,
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
    let options =
        Options { jobs: args.labs.jobs, backend: args.labs.backend.into(), allow_unknown: args.allow_unknown };
    let settings = console.settings();
    let is_text = args.format == Format::Text;
    let finished = |verified: &Verified| {
        if is_text {
            console.text(verify::page(verified, &options, settings));
        }
    };
    let all = verify::verify(&scenarios, &options, &finished);
    if is_text {
        console.text(verify::summary(&all, &options, settings));
    } else {
        console.json(args.labs.backend.into(), verify::json(&all, &options))?;
    }
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    Ok(end(troubles, all.iter().all(|verified| verified.holds(&options))))
}
