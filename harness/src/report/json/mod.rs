//! The report for machines, the result in `svclab run`'s JSON envelope. `svclab schema run` describes every field.
//!
//! Names are stable: fields may be added; none is renamed or removed without a new version of the envelope. Times are in seconds. Addresses
//! are text: `10.244.1.3:37328`, `[fd00::3]:37328`. Missing values are `null`.

mod during;
mod error;
mod flow;
mod probe;
mod tally;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use self::error::ScenarioError;
use self::probe::Probe;
use super::console;
use super::words::trouble;
use super::{
    Counts, Machines, NodeProgram, NotApplicable, RunReport, ScenarioReport, ShardOf, Status, SyncTime, TestReport,
    Trouble,
};
use crate::page::Settings;
use crate::scenario::Span;
use crate::text::path_text;

/// The report as a serializable value.
pub fn document(run: &RunReport) -> impl Serialize {
    Run::from(run)
}

/// The results of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run<'a> {
    /// The worst result: `ok`, `failed` or `error`.
    status: &'static str,
    /// The duration.
    seconds: f64,
    /// The numbers of scenarios and tests.
    counts: Totals,
    /// The seed of the order; `null` for the order of the command line.
    seed: Option<u64>,
    /// The shard; `null` for a whole run.
    shard: Option<ShardOf>,
    /// The scenarios that the programs under test (`--kube-proxy`) cannot run; they are not counted.
    not_applicable: &'a [NotApplicable],
    /// The scenarios, in the order of the command line.
    scenarios: Vec<Scenario<'a>>,
}

/// Numbers of scenarios and tests.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Totals {
    /// The number of scenarios.
    scenarios: usize,
    /// The number of tests that passed.
    ok: usize,
    /// The number of passed tests that did not pass at the first attempt.
    flaky: usize,
    /// The number of tests that failed.
    failed: usize,
    /// The number of tests that could not be run.
    errors: usize,
    /// The number of tests that were filtered out.
    filtered: usize,
    /// The number of tests that were not started, because an earlier one did not pass.
    not_started: usize,
}

impl<'a> From<&'a RunReport> for Run<'a> {
    fn from(run: &'a RunReport) -> Self {
        let Counts { scenarios, ok, flaky, failed, errors, scenario_errors: _ } = run.counts();
        let (filtered, not_started) = (run.filtered, run.not_started);
        Self {
            status: run.status().as_str(),
            seconds: run.duration.as_secs_f64(),
            counts: Totals { scenarios, ok, flaky, failed, errors, filtered, not_started },
            seed: run.seed,
            shard: run.shard,
            not_applicable: &run.not_applicable,
            scenarios: run.scenarios.iter().map(Scenario::from).collect(),
        }
    }
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    /// The name.
    name: &'a str,
    /// The file, as given on the command line.
    file: String,
    /// The number of the repetition, from 1; `null` if scenarios are not repeated.
    repetition: Option<u32>,
    /// The worst result: `ok`, `failed` or `error`.
    status: &'static str,
    /// The duration, including the lab's.
    seconds: f64,
    /// The error of the lab; `null` if there is none.
    error: Option<Error>,
    /// The programs under test (`--kube-proxy`) that wrote the rules, by node; empty if svclab generated them.
    programs: &'a [NodeProgram],
    /// How long programs under test (`--kube-proxy`) took to write the rules for new objects. After a change during which flows were sent,
    /// it is the time that a kube-proxy reports in its metrics; for other programs there is none then.
    syncs: &'a [SyncTime],
    /// Notes on the results, in words.
    notes: &'a [String],
    /// The machines and services at the start.
    machines: &'a Machines,
    /// The tests, in order.
    tests: Vec<Test<'a>>,
}

impl<'a> From<&'a ScenarioReport> for Scenario<'a> {
    fn from(report: &'a ScenarioReport) -> Self {
        Self {
            name: &report.name,
            file: path_text(&report.file),
            repetition: report.repetition,
            status: report.status().as_str(),
            seconds: report.duration.as_secs_f64(),
            error: report.error.clone().map(Error::from),
            programs: &report.programs,
            syncs: &report.syncs,
            notes: &report.notes,
            machines: &report.machines,
            tests: report.tests.iter().map(Test::from).collect(),
        }
    }
}

/// An error that left nothing to judge.
#[derive(Serialize, JsonSchema)]
struct Error {
    /// The kind of error: `input`, `environment` or `internal`.
    cause: &'static str,
    /// The message, a lower-case fragment.
    message: String,
    /// How to fix it, in a sentence.
    help: Option<String>,
    /// The place in the input.
    at: Option<Span>,
}

impl From<Trouble> for Error {
    fn from(Trouble { cause, message, help, span }: Trouble) -> Self {
        Self { cause: cause.as_str(), message, help, at: span }
    }
}

/// A test.
#[derive(Serialize, JsonSchema)]
struct Test<'a> {
    /// The name.
    name: &'a str,
    /// The place in the scenario.
    at: &'a Span,
    /// The tags.
    tags: &'a [String],
    /// The result of the last attempt: `ok`, `failed` or `error`.
    status: &'static str,
    /// Whether it passed, but not at the first attempt.
    flaky: bool,
    /// The duration.
    seconds: f64,
    /// The reason why not all probes were sent; `null` if they were.
    error: Option<Error>,
    /// The probes, in order.
    probes: Vec<Probe<'a>>,
    /// The failure as `svclab run` prints it; `null` if it passed.
    text: Option<String>,
    /// Earlier attempts, none of which passed.
    earlier: Vec<Test<'a>>,
}

impl<'a> From<&'a TestReport> for Test<'a> {
    fn from(report: &'a TestReport) -> Self {
        Self {
            name: &report.name,
            at: &report.span,
            tags: &report.tags,
            status: report.status().as_str(),
            flaky: report.is_flaky(),
            seconds: report.duration.as_secs_f64(),
            error: trouble(report).map(Error::from),
            probes: report.probes.iter().map(Probe::from).collect(),
            text: (report.status() != Status::Ok).then(|| console::test(report, Settings::default())),
            earlier: report.earlier.iter().map(Test::from).collect(),
        }
    }
}
