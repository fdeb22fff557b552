//! `svclab run`: the tests of scenarios.

mod again;

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::ValueEnum;

use super::complete;
use super::console::Console;
use super::failure::Failure;
use super::inputs::InputArgs;
use super::kernels::{KernelArgs, environment, goal, head};
use super::lab_args::LabArgs;
use super::matrix::{self, Compared, Outcome, Outcomes};
use super::progress::Bars;
use super::proxies::{PROGRAMS, ProxyArgs};
use super::reports::{ReportArgs, Reports};
use super::retry_args::AttemptArgs;
use super::selection_args::{ChoiceArgs, list};
use super::shard::{Durations, durations};
use super::{Exit, load};
use svclab::report::{RunReport, ScenarioReport, ShardOf, Status, TestReport, console, json};
use svclab::run::{self, Options};
use svclab::scenario::{Scenario, Tests};
use svclab::text::{counted, path_text, printable, reason};
use svclab::worker::{Kind, WorkerLocation};

/// Run the tests of scenarios: build labs of network namespaces, send packets, compare with expectations.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders of them.
    #[arg(required = true, add = complete::scenario_files())]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    proxies: ProxyArgs,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    attempts: AttemptArgs,
    /// Write the captured packets of every scenario to a pcapng file in this folder. Flows that are only counted are not
    /// captured.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write a subfolder for each failed test: scenario, rules with counters, connections, addresses, routes, capture,
    /// and the three sources. `svclab report show` prints it.
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
    /// After a failure, open a shell in the lab of the first failed test, with the objects and rules at the time of the failure.
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = [PROGRAMS[0], PROGRAMS[1], "kernel"])]
    on_failure: Option<OnFailure>,
    #[command(flatten)]
    reports: ReportArgs,
    /// Run again when a scenario, or a file that it refers to, changes; changed scenarios run first. Ctrl-C stops it.
    #[arg(long, conflicts_with_all = ["list", "shard"])]
    watch: bool,
}

/// The action after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// A shell: see `svclab shell`.
    Shell,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let ended = if args.watch { again::run(args, console) } else { attempt(args, console) };
    ended.unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    run_once(load(&args.paths, args.inputs.reach(), Tests::Required, console)?, None, args, console)
}

/// Runs the tests of scenarios, on the given kernel or after preparing one, and writes reports.
fn run_once(
    scenarios: Vec<Scenario>,
    ready: Option<&WorkerLocation>,
    args: &Args,
    console: &Console,
) -> Result<Exit, Exit> {
    let options = args.attempts.apply(Options {
        jobs: args.labs.jobs,
        selection: args.choice.selection(),
        backend: args.labs.backend.into(),
        programs: args.proxies.programs().map_err(|failure| failure.report(console))?,
        pcap: args.pcap.clone(),
        artifacts: args.artifacts.clone(),
        ..Options::default()
    });
    args.kernels.without(options.programs.as_ref()).map_err(|failure| failure.report(console))?;
    let inputs: Vec<PathBuf> = scenarios.iter().flat_map(|scenario| scenario.inputs.keys().cloned()).collect();
    let (scenarios, shard) = part(scenarios, args, &options, console)?;
    if args.choice.list {
        // Nothing else may be written where a report is read.
        if args.reports.take_stdout() {
            console.lend_stdout();
        }
        list(&scenarios, &options, console);
        return Ok(Exit::Held);
    }
    let is_text = !args.reports.is_asked() && args.pcap.is_none() && args.artifacts.is_none();
    let compares = args.kernels.comparing(is_text).map_err(|failure| failure.report(console))?;
    let reports = Reports::open(&args.reports.report, inputs.iter().map(PathBuf::as_path), console)?;
    check_folders(args, console)?;
    if compares {
        return on_kernels(&scenarios, &options, args, console);
    }
    let location = match ready {
        Some(location) => location.clone(),
        None => args.kernels.location(Kind::Run, options.backend, console)?,
    };
    let options = Options { goal: goal(&location), worker: Some(location.clone()), ..options };
    head(Some(&location), console);
    let report = RunReport { shard, ..run_with_progress(&scenarios, &options, console) };
    console.text(console::summary(&report, console.settings()));
    let written =
        reports.write("run", &environment(Some(&location), options.backend), json::document(&report), console);
    if let Some(OnFailure::Shell) = args.on_failure {
        shell_of_failure(&report, &scenarios, args, console)?;
    }
    if report.scenarios.is_empty() && !report.not_applicable.is_empty() {
        return Err(Exit::Input);
    }
    Ok(exit(&report).with_reports(written))
}

/// Rejects folders for files of tests that cannot be written to.
fn check_folders(args: &Args, console: &Console) -> Result<(), Exit> {
    for (option, folder) in [("--pcap", &args.pcap), ("--artifacts", &args.artifacts)] {
        let Some(folder) = folder else { continue };
        if folder.as_os_str() == "-" {
            let help = "Name a folder; `./-` is one that is called `-`.";
            return Err(Failure::new(format!("{option} takes a folder, not standard output"), help).report(console));
        }
        if let Err(error) = writable(folder) {
            let (folder, reason) = (printable(folder), reason(&error));
            console.complain(format!("{option}: the folder {folder} cannot be written to: {reason}"));
            return Err(Exit::Input);
        }
    }
    Ok(())
}

/// Runs scenarios on several kernels, one after the other.
fn on_kernels(scenarios: &[Scenario], options: &Options, args: &Args, console: &Console) -> Result<Exit, Exit> {
    let all = args.kernels.on_each(Kind::Run, options.backend, console, |location| {
        let options = Options { goal: goal(&location), worker: Some(location), ..options.clone() };
        let bars = Bars::new(Some(scenarios.len()), &options.progress, console);
        Ok(run::run(scenarios, &options, &|_| bars.scenario_ended()))
    })?;
    let settings = console.settings();
    let page = |report: &RunReport| {
        let failed = report.scenarios.iter().filter(|one| one.status() != Status::Ok);
        failed.map(|one| console::scenario(one, settings)).collect::<String>() + &console::summary(report, settings)
    };
    let compared = Compared { what: "tests", missing: "not run" };
    Ok(matrix::show(&all, compared, console, outcomes, page, exit))
}

/// Returns the results of tests, in the order of their files.
fn outcomes(report: &RunReport) -> Outcomes<(String, u32, usize)> {
    let of_scenario = |scenario: &ScenarioReport| {
        let (file, repetition) = (path_text(&scenario.file), scenario.repetition.unwrap_or_default());
        let of_test = |(index, test): (usize, &TestReport)| {
            let result = match test.status() {
                Status::Ok => "ok",
                Status::Failed => "FAILED",
                _ => "ERROR",
            };
            let outcome = Outcome { of: format!("{file}: {}", test.name), result: result.to_owned() };
            ((file.clone(), repetition, index), outcome)
        };
        scenario.tests.iter().enumerate().map(of_test).collect::<Vec<_>>()
    };
    report.scenarios.iter().flat_map(of_scenario).collect()
}

/// Opens a shell in the lab of the first failed test, if any. The run's result does not change.
fn shell_of_failure(report: &RunReport, scenarios: &[Scenario], args: &Args, console: &Console) -> Result<(), Exit> {
    let of_test = |failed: &ScenarioReport| {
        let scenario = scenarios.iter().find(|scenario| scenario.file == failed.file)?;
        let test = failed.tests.iter().find(|test| test.status() == Status::Failed)?;
        Some((scenario, test.name.clone(), run::changes_before_failure(scenario, test)))
    };
    let Some((scenario, test, step)) = report.scenarios.iter().find_map(of_test) else { return Ok(()) };
    let after = if step == 0 { String::new() } else { format!(", after {} of the cluster", counted(step, "change")) };
    console.complain(format!("a shell in the lab of the failed test{after}: {test}"));
    let opened = super::shell::open_scenario(scenario, args.inputs.reach(), step, args.labs.backend, console);
    opened.map(drop).map_err(|failure| failure.report(console))
}

/// Creates a folder, and checks that files can be created in it.
fn writable(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    tempfile::tempfile_in(folder).map(drop)
}

/// Returns the scenarios of the shard. Those without a selected test are in every shard: they are only counted.
fn part(
    scenarios: Vec<Scenario>,
    args: &Args,
    options: &Options,
    console: &Console,
) -> Result<(Vec<Scenario>, Option<ShardOf>), Exit> {
    let (chosen, others): (Vec<Scenario>, Vec<Scenario>) =
        scenarios.into_iter().partition(|scenario| options.runs(scenario));
    if chosen.is_empty() {
        return Err(args.choice.nothing_chosen(&others, console));
    }
    let Some(shard) = args.choice.shard else { return Ok((chosen.into_iter().chain(others).collect(), None)) };
    let durations =
        args.choice.durations.as_deref().map_or(Ok(Durations::default()), |file| durations(file, console))?;
    let report = ShardOf { number: shard.number(), total: shard.of(), scenarios: chosen.len() };
    let files: Vec<String> = chosen.iter().map(|scenario| path_text(&scenario.file)).collect();
    let mine = shard.part(&durations.of(&files));
    if mine.is_empty() {
        console.inform(format!("shard {shard} is empty: there are fewer scenarios than shards ({})", chosen.len()));
    }
    let chosen = chosen.into_iter().enumerate().filter(|(index, _)| mine.contains(index)).map(|(_, scenario)| scenario);
    Ok((chosen.chain(others).collect(), Some(report)))
}

/// Runs scenarios, prints each result as it ends, and shows the progress on a terminal.
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
        (_, cause) => cause.map_or(Exit::Input, Exit::from),
    }
}
