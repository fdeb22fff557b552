//! `svclab verify`: every vantage point against every service address, by three sources.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use super::inputs::{InputArgs, load_all};
use super::labs::{Format, LabArgs, end, own_program, prepare};
use super::progress::Bars;
use super::reports::{ReportArgs, Reports};
use svclab::environment::Environment;
use svclab::text::one_line;
use svclab::verify::{self, Options, Verified};

/// Compare what the API promises, what the rules do and what the kernel does, for every Service address.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders that contain them; or files with Kubernetes objects, or with all rules of a node as
    /// printed by `iptables-save` or `nft list ruleset`. Tests are ignored: the initial state of the cluster is verified.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// Do not fail on flows that match a rule that svclab does not model.
    #[arg(long)]
    allow_unknown: bool,
    /// Compare what is promised with what the rules do, without sending packets: needs no privileges.
    #[arg(long)]
    no_lab: bool,
    /// Send the packet of each class N times.
    #[arg(long, value_name = "N", conflicts_with = "no_lab")]
    repeat: Option<NonZeroUsize>,
    /// Only packets for a service: `NAMESPACE/NAME` or `NAME`, with or without `:PORT`.
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Only packets of one sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(long, value_name = "SENDER")]
    from: Option<String>,
    /// Only packets that start on a node.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
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
    if !args.no_lab {
        prepare(console)?;
    }
    let options = Options {
        jobs: args.labs.jobs,
        backend: args.labs.backend.into(),
        allow_unknown: args.allow_unknown,
        no_lab: args.no_lab,
        repeat: args.repeat,
        service: args.service.clone(),
        from: args.from.clone(),
        node: args.node.clone(),
        worker: Some(own_program()),
        ..Options::default()
    };
    if let Some((option, value)) = options.selects_nothing(&scenarios) {
        let message = format!("`{option} {}` selects no packet of the input", one_line(value));
        let help = "Name it as `svclab verify` without this option does in its output.";
        return Err(Failure::new(message, help).report(console));
    }
    let settings = console.settings();
    let is_text = args.format == Format::Text;
    let bars = Bars::new((scenarios.len() > 1).then_some(scenarios.len()), &options.progress, console);
    let finished = |verified: &Verified| {
        if is_text {
            bars.suspend(|| console.text(verify::page(verified, &options, settings)));
        }
        bars.scenario_ended();
    };
    let all = verify::verify(&scenarios, &options, &finished);
    drop(bars);
    if is_text {
        console.text(verify::summary(&all, &options, settings));
    } else {
        console.json("verify", args.labs.backend.into(), verify::json(&all, &options))?;
    }
    let written =
        reports.write("verify", &Environment::of(args.labs.backend.into()), verify::json(&all, &options), console);
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    Ok(end(troubles, all.iter().all(|verified| verified.holds(&options))).with_reports(written))
}
