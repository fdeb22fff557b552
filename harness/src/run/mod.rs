//! A run: builds the labs of scenarios, carries out their tests and reports the results.

mod artifacts;
mod capture;
mod diagnosis;
mod error;
mod schedule;
mod selection;
mod session;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use svclab_rules::conntrack;

use crate::lab::Backend;
use crate::probe::Progress;
use crate::report::{Machines, RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::scenario::{Balance, Diagnostic, Flows, Scenario, Step, Test};
use crate::stats::{FalseAlarmRate, Goal};

pub use artifacts::{RESULT, SCENARIO};
pub(crate) use error::RunError;
pub use selection::{Selection, TagCondition};
pub(crate) use session::Session;

use schedule::{Scheduled, schedule};

/// How scenarios are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// The tests that are carried out; of the others only the changes that later ones build on.
    pub selection: Selection,
    /// How often each scenario is run, each time in a lab of its own; 0 is once.
    pub repeat: u32,
    /// The seed of a random order of scenarios, and of tests where none changes objects; `None` for the order of the input.
    pub shuffle: Option<u64>,
    /// How often a test that did not pass is run again, in a new lab. One that passes then is flaky.
    pub retries: u32,
    /// The longest time for one test; flows in flight are still awaited.
    pub timeout: Option<Duration>,
    /// Start no further test after the first that does not pass.
    pub fail_fast: bool,
    /// What installs iptables rules.
    pub backend: Backend,
    /// The folder that a capture of each scenario is written to, as pcapng.
    pub pcap: Option<PathBuf>,
    /// The folder that gets a folder for each test that fails: see `svclab report show`.
    pub artifacts: Option<PathBuf>,
    /// The bias to find, its power, and how often a whole run may fail although all is right.
    pub goal: Goal,
    /// Progress counter shared by all labs.
    pub progress: Arc<Progress>,
}

impl Options {
    /// Whether any test of a scenario is carried out.
    pub fn runs(&self, scenario: &Scenario) -> bool {
        self.selection.of(scenario).next().is_some()
    }

    /// Whether a test is to be carried out.
    fn chooses(&self, test: &Test) -> bool {
        self.selection.chooses(test)
    }
}

/// Runs scenarios, several at a time, and hands each one's report to `finished` in their order, as soon as it is there.
///
/// The report has the scenarios in the order in which they are started; those without a chosen test are left out.
pub fn run(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&ScenarioReport) + Sync)) -> RunReport {
    let begin = Instant::now();
    let scheduled = schedule(scenarios, options);
    let all: Vec<&Scenario> = scheduled.iter().map(|one| &*one.scenario).collect();
    let rate = shared_rate(&all, &options.goal);
    let stop = AtomicBool::new(false);
    let run_one = |one: &Scheduled<'_>| run_one(one, options, rate, &stop);
    let finished = |report: &Option<ScenarioReport>| report.iter().for_each(finished);
    let reports: Vec<ScenarioReport> =
        in_parallel(&scheduled, options.jobs, run_one, &finished).into_iter().flatten().collect();
    let chosen: usize = all.iter().map(|scenario| options.selection.of(scenario).count()).sum();
    let tests = scenarios.iter().flat_map(|scenario| &scenario.tests);
    RunReport {
        not_started: chosen - reports.iter().map(|report| report.tests.len()).sum::<usize>().min(chosen),
        scenarios: reports,
        filtered: tests.filter(|test| !options.chooses(test)).count(),
        seed: options.shuffle,
        shard: None,
        duration: begin.elapsed(),
    }
}

/// Errors of balance tests in scenarios that are run together, for each scenario: those that need more flows than a probe may
/// have.
pub fn balance_errors(scenarios: &[&Scenario], goal: &Goal) -> Vec<Vec<Diagnostic>> {
    let goal = Goal { false_alarm: shared_rate(scenarios, goal), ..*goal };
    let error = |step: &Step| match step {
        Step::Probe(probe, expectation) => {
            let Trouble { message, help, .. } = session::flows(probe, expectation, &goal).err()?.into_trouble();
            Some(Diagnostic { span: probe.span.clone(), length: 1, message, help, also: None })
        }
        Step::Apply(_) | Step::Wait(_) => None,
    };
    let of_scenario =
        |scenario: &&Scenario| scenario.tests.iter().flat_map(|test| &test.steps).filter_map(error).collect();
    scenarios.iter().map(of_scenario).collect()
}

/// How often a single judgement may fail by chance, so that a whole run seldom does.
fn shared_rate(scenarios: &[&Scenario], goal: &Goal) -> FalseAlarmRate {
    goal.false_alarm.shared_by(scenarios.iter().map(|one| judgements(one)).sum::<usize>().max(1))
}

/// Does work for each of several items, as many at the same time as labs may run, and hands each result to `finished` as soon
/// as it and those before it are there. The results are in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<NonZeroUsize>,
    work: impl Fn(&T) -> R + Sync,
    finished: &(dyn Fn(&R) + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(InOrder { done: Vec::with_capacity(items.len()), waiting: BTreeMap::new() });
    let take = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).add(index, result, finished);
        }
    };
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 1..jobs.min(items.len()) {
            // If fewer threads can be started, they share the work; this thread always exists.
            let _ = thread::Builder::new().spawn_scoped(scope, take);
        }
        take();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).done
}

/// Results, sorted as they become ready.
struct InOrder<R> {
    /// Those without a gap.
    done: Vec<R>,
    /// Those before which others are missing, by index.
    waiting: BTreeMap<usize, R>,
}

impl<R> InOrder<R> {
    fn add(&mut self, index: usize, result: R, finished: &dyn Fn(&R)) {
        self.waiting.insert(index, result);
        while let Some(result) = self.waiting.remove(&self.done.len()) {
            finished(&result);
            self.done.push(result);
        }
    }
}

/// Turns a panic into an error of the scenario that it occurred in, so that other scenarios go on.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panic) => Err(RunError::Panic(panic_message(panic.as_ref()))),
    }
}

/// Runs one scenario, and its tests that do not pass again as often as they may be; `None` where the run is to stop.
fn run_one(one: &Scheduled<'_>, options: &Options, rate: FalseAlarmRate, stop: &AtomicBool) -> Option<ScenarioReport> {
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let begin = Instant::now();
    let (mut tests, mut error) = attempt(&one.scenario, options, rate, stop, &one.suffix(0));
    for number in 1..=options.retries {
        let again: Vec<String> =
            tests.iter().filter(|test| test.can_be_retried()).map(|test| test.name.clone()).collect();
        if again.is_empty() {
            break;
        }
        let selection = Selection { only: Some(again), ..options.selection.clone() };
        let (retried, retried_error) =
            attempt(&one.scenario, &Options { selection, ..options.clone() }, rate, stop, &one.suffix(number));
        error = retried_error;
        for new in retried {
            if let Some(test) = tests.iter_mut().find(|test| test.name == new.name) {
                test.retried(new);
            }
        }
    }
    let report = ScenarioReport {
        name: one.scenario.name.clone(),
        file: one.scenario.file.clone(),
        repetition: one.repetition,
        machines: Machines::of(&one.scenario),
        tests,
        error,
        notes: notes(&one.scenario, options),
        duration: begin.elapsed(),
    };
    if options.fail_fast && report.status() != Status::Ok {
        stop.store(true, Ordering::Relaxed);
    }
    Some(report)
}

/// Carries out a scenario's chosen tests once, in a lab of their own. A panic is an error of this scenario alone.
fn attempt(
    scenario: &Scenario,
    options: &Options,
    rate: FalseAlarmRate,
    stop: &AtomicBool,
    suffix: &str,
) -> (Vec<TestReport>, Option<Trouble>) {
    let mut tests = Vec::new();
    let carried_out = guarded(|| session::carry_out(scenario, options, rate, (stop, suffix), &mut tests));
    let error = carried_out.err().map(RunError::into_trouble);
    if let Some(trouble) = &error {
        let rest = options.selection.of(scenario).skip(tests.len());
        let rest: Vec<TestReport> = rest.map(|test| TestReport::not_carried_out(test, trouble)).collect();
        tests.extend(rest);
    }
    (tests, error)
}

/// Remarks on a run, in addition to its results.
fn notes(scenario: &Scenario, options: &Options) -> Vec<String> {
    let changes = scenario.states().nth(1).is_some();
    let proxy = changes.then_some(&scenario.cluster.proxy);
    let empty = options.pcap.is_some() && !follows(scenario, options);
    let captured = empty.then(|| "no capture: all flows of these tests are only counted".to_owned());
    proxy.and_then(conntrack::note).into_iter().chain(captured).collect()
}

/// Whether a packet of a chosen test is followed: flows that are only counted are not captured.
fn follows(scenario: &Scenario, options: &Options) -> bool {
    let chosen = scenario.tests.iter().filter(|test| options.chooses(test)).flat_map(|test| &test.steps);
    let followed = |step: &Step| matches!(step, Step::Probe(probe, _) if probe.flows == Flows::Exactly(1));
    chosen.into_iter().any(followed)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for no known reason".to_owned())
}

/// How many judgements of a scenario may fail by chance: each balance by its shares, by the flow before, and by the source port.
fn judgements(scenario: &Scenario) -> usize {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    let is_tested = |balance: &Option<Balance>| !matches!(balance, None | Some(Balance::All));
    3 * steps.filter(|step| matches!(step, Step::Probe(_, expectation) if is_tested(&expectation.balance))).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// The first result is ready last, and is still reported first.
    #[test]
    fn results_are_reported_in_order() {
        let (all_others, reported) = (Barrier::new(2), Mutex::new(Vec::new()));
        let work = |item: &u32| {
            if [0, 3].contains(item) {
                all_others.wait();
            }
            item * 10
        };
        let report = |result: &u32| reported.lock().expect("no thread panics").push(*result);
        let results = in_parallel(&[0, 1, 2, 3], NonZeroUsize::new(2), work, &report);
        assert_eq!(results, [0, 10, 20, 30]);
        assert_eq!(*reported.lock().expect("no thread panics"), results);
    }
}
