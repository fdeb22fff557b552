//! A run: scenarios become labs, their tests are carried out and judged.

mod matching;
mod session;

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::documents::DocumentError;
use crate::judge::Verdict;
use crate::lab::{Backend, LabError};
use crate::observation::Observation;
use crate::probe::ProbeError;
use crate::scenario::{Expectation, Probe, Scenario, Span, Step};
use crate::stats::{FalseAlarmRate, Goal, StatsError};

pub use matching::matching_rules;

/// How scenarios are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one a processor.
    pub jobs: Option<NonZeroUsize>,
    /// Only tests whose name contains this text are carried out; steps of others are not either.
    pub filter: Option<String>,
    /// What installs iptables rules.
    pub backend: Backend,
    /// The bias to find, its power, and how often a whole run may fail although all is right.
    pub goal: Goal,
}

/// What came of one scenario.
#[derive(Debug)]
pub struct ScenarioOutcome {
    /// Its tests, in order; those that were not carried out because of `error` are missing.
    pub tests: Vec<TestOutcome>,
    /// What ended it early.
    pub error: Option<RunError>,
    /// How long it took, from planning to the end of the lab.
    pub duration: Duration,
}

/// What came of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestOutcome {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// Its probes, in order.
    pub probes: Vec<ProbeOutcome>,
    /// How long it took.
    pub duration: Duration,
}

/// What came of one probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeOutcome {
    /// What was sent.
    pub probe: Probe,
    /// What was expected.
    pub expectation: Expectation,
    /// What was seen.
    pub observation: Observation,
    /// Whether that is as expected.
    pub verdict: Verdict,
    /// Where it is not: the rules that the packet's nodes have for it, by node.
    pub rules: Vec<(String, Vec<String>)>,
    /// How long it took.
    pub duration: Duration,
}

/// What ends a scenario early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The rules cannot be written.
    #[error(transparent)]
    Rules(#[from] DocumentError),
    /// The lab failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A probe could not be sent.
    #[error("{span}: {source}")]
    Probe {
        /// Where the probe stands.
        span: Span,
        /// Why.
        source: Box<ProbeError>,
    },
    /// The number of flows for a balance test cannot be found.
    #[error("{span}: {source}")]
    Flows {
        /// Where the probe stands.
        span: Span,
        /// Why.
        source: StatsError,
    },
    /// svclab itself failed.
    #[error("svclab failed: {0}")]
    Panic(String),
}

impl ScenarioOutcome {
    /// True where every expectation held and nothing ended the scenario early.
    pub fn held(&self) -> bool {
        self.error.is_none() && self.tests.iter().all(TestOutcome::held)
    }
}

impl TestOutcome {
    /// True where every expectation held.
    pub fn held(&self) -> bool {
        self.probes.iter().all(|probe| probe.verdict.held)
    }
}

/// Runs scenarios, several at a time, and hands each outcome to `finished` as soon as it is there. The outcomes are returned
/// in the order of the scenarios.
pub fn run(
    scenarios: &[Scenario],
    options: &Options,
    finished: &(dyn Fn(usize, &ScenarioOutcome) + Sync),
) -> Vec<ScenarioOutcome> {
    let rate = options.goal.false_alarm.shared_by(scenarios.iter().map(statistical_tests).sum::<usize>().max(1));
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<ScenarioOutcome>>> = Mutex::new(scenarios.iter().map(|_| None).collect());
    let work = || {
        while let Some((index, scenario)) = take(&next, scenarios) {
            let outcome = run_one(scenario, options, rate);
            finished(index, &outcome);
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = Some(outcome);
        }
    };
    let jobs = options.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..jobs.min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcomes.into_iter().flatten().collect()
}

fn take<'a>(next: &AtomicUsize, scenarios: &'a [Scenario]) -> Option<(usize, &'a Scenario)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    scenarios.get(index).map(|scenario| (index, scenario))
}

/// Runs one scenario. A mistake of svclab's own ends this scenario, not the others.
fn run_one(scenario: &Scenario, options: &Options, rate: FalseAlarmRate) -> ScenarioOutcome {
    let begin = Instant::now();
    let mut tests = Vec::new();
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| session::carry_out(scenario, options, rate, &mut tests)));
    let error = match ended {
        Ok(result) => result.err(),
        Err(panic) => Some(RunError::Panic(panic_message(panic.as_ref()))),
    };
    ScenarioOutcome { tests, error, duration: begin.elapsed() }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for no known reason".to_owned())
}

/// How many judgements of a scenario may fail by chance.
fn statistical_tests(scenario: &Scenario) -> usize {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    steps.filter(|step| matches!(step, Step::Probe(_, expectation) if expectation.balance.is_some())).count()
}
