//! A run: scenarios become labs, their tests are carried out, and what came of them becomes a report.

mod error;
mod matching;
mod session;

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::lab::Backend;
use crate::report::{RunReport, ScenarioReport};
use crate::scenario::{Scenario, Step, Test};
use crate::stats::{FalseAlarmRate, Goal};

pub use error::RunError;
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
    /// The folder that a capture of each scenario is written to, as pcapng.
    pub pcap: Option<PathBuf>,
    /// The bias to find, its power, and how often a whole run may fail although all is right.
    pub goal: Goal,
}

impl Options {
    /// Whether any test of a scenario is carried out.
    pub fn runs(&self, scenario: &Scenario) -> bool {
        scenario.tests.iter().any(|test| self.chooses(test))
    }

    /// Whether a test is to be carried out.
    fn chooses(&self, test: &Test) -> bool {
        self.filter.as_ref().is_none_or(|text| test.name.contains(text.as_str()))
    }
}

/// Runs scenarios, several at a time, and hands each one's report to `finished` as soon as it is there.
///
/// The report has the scenarios in their order; those without a test that the filter chooses are left out.
pub fn run(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&ScenarioReport) + Sync)) -> RunReport {
    let begin = Instant::now();
    let chosen: Vec<&Scenario> = scenarios.iter().filter(|scenario| options.runs(scenario)).collect();
    let rate = options.goal.false_alarm.shared_by(chosen.iter().map(|one| judgements(one)).sum::<usize>().max(1));
    let reports = in_parallel(&chosen, options.jobs, |scenario| {
        let report = run_one(scenario, options, rate);
        finished(&report);
        report
    });
    let tests = scenarios.iter().flat_map(|scenario| &scenario.tests);
    RunReport {
        scenarios: reports,
        filtered: tests.filter(|test| !options.chooses(test)).count(),
        duration: begin.elapsed(),
    }
}

/// Does work for each of several items, with as many threads as labs may run at the same time; the results are in the order of
/// the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<NonZeroUsize>,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let take = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(take);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Turns a mistake of svclab's own into an error of the scenario that it came up with, so that others go on.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panic) => Err(RunError::Panic(panic_message(panic.as_ref()))),
    }
}

/// Runs one scenario.
fn run_one(scenario: &Scenario, options: &Options, rate: FalseAlarmRate) -> ScenarioReport {
    let begin = Instant::now();
    let mut tests = Vec::new();
    let error = guarded(|| session::carry_out(scenario, options, rate, &mut tests)).err();
    ScenarioReport {
        name: scenario.name.clone(),
        file: scenario.file.clone(),
        tests,
        error: error.map(|error| error.into_trouble()),
        duration: begin.elapsed(),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for no known reason".to_owned())
}

/// How many judgements of a scenario may fail by chance.
fn judgements(scenario: &Scenario) -> usize {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    steps.filter(|step| matches!(step, Step::Probe(_, expectation) if expectation.balance.is_some())).count()
}
