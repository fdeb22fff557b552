//! `svclab run`: scenarios become labs, packets become verdicts.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::console::Console;
use super::{Exit, interrupt, load};
use crate::lab::{self, Backend};
use crate::report::{Cause, RunReport, ScenarioReport, Status, console, github, json, junit};
use crate::run::{self, Options};
use crate::scenario::Scenario;

/// Build scenarios as network namespaces, send packets, and judge what comes of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders to look for them in.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How many labs run at the same time [default: one a processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Carry out only tests whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run only a part of the scenarios: 1/4 is the first of four.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// What installs iptables rules.
    #[arg(long, value_enum, default_value = "system")]
    backend: Backend,
    /// Write what the taps saw of every scenario to this folder, as pcapng for Wireshark and tshark.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write reports as well: junit=FILE, json=FILE, github (annotations on standard output).
    #[arg(long, value_name = "KIND[=FILE]", value_delimiter = ',')]
    report: Vec<Report>,
}

/// A part of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    /// Which part, from 1.
    number: usize,
    /// Of how many.
    of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a shard is K/N with K from 1 to N, as 1/4".to_owned()),
        }
    }
}

/// A report beside the one on the console.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Report {
    Junit(PathBuf),
    Json(PathBuf),
    Github,
}

impl std::str::FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("junit", file)) if !file.is_empty() => Ok(Self::Junit(file.into())),
            Some(("json", file)) if !file.is_empty() => Ok(Self::Json(file.into())),
            None if text == "github" => Ok(Self::Github),
            _ => Err("a report is junit=FILE, json=FILE or github".to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let mut scenarios = match load(&args.paths, console) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    if let Some(shard) = args.shard {
        let mine = |index: usize| index % shard.of == shard.number - 1;
        scenarios = scenarios.into_iter().enumerate().filter(|(index, _)| mine(*index)).map(|(_, one)| one).collect();
    }
    // A user namespace can only be entered while there is one thread.
    if let Err(error) = lab::become_privileged() {
        console.complain(format!("{error}\n{}", error.help()));
        return Exit::Environment;
    }
    interrupt::exit_on_signals();
    let options = Options {
        jobs: args.jobs,
        filter: args.filter.clone(),
        backend: args.backend,
        pcap: args.pcap.clone(),
        ..Options::default()
    };
    let report = run_with_progress(&scenarios, &options, console);
    if report.scenarios.is_empty() && args.shard.is_none() {
        let filter = args.filter.as_deref().unwrap_or_default();
        console.complain(format!("no test's name contains `{filter}`: `svclab check -v` counts what is there"));
        return Exit::Input;
    }
    let style = style(console);
    console.text(console::summary(&report, style));
    match write_reports(&report, &args.report, console) {
        Ok(()) => exit(&report),
        Err(exit) => exit,
    }
}

fn style(console: &Console) -> console::Options {
    let detail = match (console.quiet, console.verbose) {
        (true, _) => console::Detail::Quiet,
        (false, 0) => console::Detail::Normal,
        (false, _) => console::Detail::Verbose,
    };
    console::Options { colours: console.color, detail }
}

/// Runs scenarios, shows each as it ends, and on a terminal how far the run is.
fn run_with_progress(scenarios: &[Scenario], options: &Options, console: &Console) -> RunReport {
    let style = style(console);
    let bar = if console.quiet { ProgressBar::hidden() } else { ProgressBar::new(scenarios.len() as u64) };
    let template = "{bar:30} {pos}/{len} scenarios, {elapsed}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let finished = |report: &ScenarioReport| {
        bar.suspend(|| console.text(console::scenario(report, style)));
        bar.inc(1);
    };
    let report = run::run(scenarios, options, &finished);
    bar.finish_and_clear();
    report
}

fn write_reports(report: &RunReport, wanted: &[Report], console: &Console) -> Result<(), Exit> {
    for one in wanted {
        let written = match one {
            Report::Github => {
                console.text(github::render(report));
                Ok(())
            }
            Report::Json(file) => json::render(report).map_err(|e| e.to_string()).and_then(|text| write(file, &text)),
            Report::Junit(file) => junit::render(report).map_err(|e| e.to_string()).and_then(|text| write(file, &text)),
        };
        if let Err(message) = written {
            console.complain(format!("the report could not be written: {message}"));
            return Err(Exit::Environment);
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn exit(report: &RunReport) -> Exit {
    match (report.status(), report.cause()) {
        (Status::Ok, _) => Exit::Held,
        (Status::Failed, _) => Exit::Failed,
        (Status::Error, Some(Cause::Environment)) => Exit::Environment,
        (Status::Error, Some(Cause::Internal)) => Exit::Internal,
        (Status::Error, _) => Exit::Input,
    }
}
