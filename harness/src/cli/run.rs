//! `svclab run`: the tests of scenarios.

use std::fs;
use std::path::PathBuf;

use super::console::Console;
use super::inputs::InputArgs;
use super::labs::{LabArgs, prepare};
use super::progress::Bars;
use super::reports::{Report, Reports};
use super::shard::Shard;
use super::{Exit, load};
use svclab::environment::Environment;
use svclab::report::{RunReport, ScenarioReport, Status, console};
use svclab::run::{self, Options};
use svclab::scenario::{Scenario, Tests};
use svclab::text::{one_line, reason};

/// Run the tests of scenarios: build labs of network namespaces, send packets, compare with expectations.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders that contain them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// Run only tests whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run only a shard of the scenarios that have a selected test: 1/4 is the first of four.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Write the captured packets of every scenario to a pcapng file in this folder. Flows that are only counted are not
    /// captured.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write reports: junit=FILE, json=FILE, github (annotations on standard output). With `-` as FILE, the report goes to
    /// standard output and everything else to standard error.
    #[arg(long, value_name = "KIND[=FILE]", value_delimiter = ',')]
    report: Vec<Report>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let scenarios = load(&args.paths, args.inputs.reach(), Tests::Required, console)?;
    let options = Options {
        jobs: args.labs.jobs,
        filter: args.filter.clone(),
        backend: args.labs.backend.into(),
        pcap: args.pcap.clone(),
        ..Options::default()
    };
    let inputs: Vec<PathBuf> = scenarios.iter().flat_map(|scenario| scenario.inputs.clone()).collect();
    let scenarios = part(scenarios, args, &options, console)?;
    let reports = Reports::open(&args.report, inputs.iter().map(PathBuf::as_path), console)?;
    if let Some(Err(error)) = args.pcap.as_ref().map(fs::create_dir_all) {
        console.complain(format!("--pcap: the folder cannot be made: {}", reason(&error)));
        return Err(Exit::Input);
    }
    prepare(console)?;
    let report = run_with_progress(&scenarios, &options, console);
    console.text(console::summary(&report, console.settings()));
    let written = reports.write(&report, &Environment::of(options.backend), console);
    match exit(&report) {
        Exit::Held => written.map(|()| Exit::Held),
        exit => Err(exit),
    }
}

/// The scenarios of the shard. Those without a chosen test are in every shard: they are only counted.
fn part(scenarios: Vec<Scenario>, args: &Args, options: &Options, console: &Console) -> Result<Vec<Scenario>, Exit> {
    let is_chosen = |scenario: &Scenario| options.runs(scenario);
    let chosen = scenarios.iter().filter(|scenario| is_chosen(scenario)).count();
    if chosen == 0 {
        let filter = args.filter.as_deref().unwrap_or_default();
        let tests: usize = scenarios.iter().map(|scenario| scenario.tests.len()).sum();
        console.complain(format!("no test's name contains `{}`: all {tests} are left out", one_line(filter)));
        return Err(Exit::Input);
    }
    let Some(shard) = args.shard else { return Ok(scenarios) };
    let mut next = 0;
    let mut is_mine = |scenario: &Scenario| {
        let index = next;
        next += usize::from(is_chosen(scenario));
        !is_chosen(scenario) || shard.has(index)
    };
    let mine: Vec<Scenario> = scenarios.into_iter().filter(|scenario| is_mine(scenario)).collect();
    if !mine.iter().any(is_chosen) {
        console.inform(format!("shard {shard} is empty: there are fewer scenarios than shards ({chosen})"));
    }
    Ok(mine)
}

/// Runs scenarios, shows each as it ends, and on a terminal how far the run is.
fn run_with_progress(scenarios: &[Scenario], options: &Options, console: &Console) -> RunReport {
    let settings = console.settings();
    let chosen = scenarios.iter().filter(|scenario| options.runs(scenario)).count();
    let bars = Bars::new(Some(chosen), &options.progress, console);
    let finished = |report: &ScenarioReport| {
        bars.suspend(|| console.text(console::scenario(report, settings)));
        bars.scenario_ended();
    };
    run::run(scenarios, options, &finished)
}

fn exit(report: &RunReport) -> Exit {
    match (report.status(), report.cause()) {
        (Status::Ok, _) => Exit::Held,
        (Status::Failed, _) => Exit::Failed,
        (Status::Error, cause) => cause.map_or(Exit::Input, Exit::from),
    }
}
