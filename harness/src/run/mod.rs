//! A run: builds the labs of scenarios, runs their tests and reports the results.

mod artifacts;
mod attempt;
mod capture;
mod diagnosis;
mod error;
mod executor;
mod files;
mod in_process;
mod in_worker;
mod parallel;
mod program;
mod schedule;
mod selection;
mod session;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use svclab_rules::conntrack;

use crate::lab::Backend;
use crate::probe::Progress;
use crate::proxy::{self, Program, Programs};
use crate::report::{Machines, NodeProgram, NotApplicable, RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::scenario::{Balance, Diagnostic, Scenario, Step, Test};
use crate::stats::{FalseAlarmRate, Goal};
use crate::worker::WorkerLocation;

pub use artifacts::{RESULT, SCENARIO};
pub(crate) use error::RunError;
pub use in_worker::serve;
pub(crate) use parallel::{guarded, in_parallel, in_parallel_with};
pub use program::program_rules;
pub use selection::{Selection, TagCondition};
pub(crate) use session::{Session, State};

use attempt::{Assignment, Attempt, StopFlag};
use executor::Executor;
use schedule::{Scheduled, schedule};

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The number of labs that run in parallel; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// The selected tests; for the others only the changes that later tests build on are made.
    pub selection: Selection,
    /// How often each scenario is run, each time in a new lab; 0 means once.
    pub repeat: u32,
    /// The seed of a random order of scenarios, and of their tests if none changes objects; `None` for the order of the input.
    pub shuffle: Option<u64>,
    /// How often a test that did not pass is run again, in a new lab. One that passes then is flaky.
    pub retries: u32,
    /// The time limit for one test; flows in flight are still awaited.
    pub timeout: Option<Duration>,
    /// Start no further test after the first that does not pass.
    pub fail_fast: bool,
    /// Where the workers with labs run, one for each of `jobs`: virtual machines, or processes of svclab, which call [`serve`] when started
    /// with the arguments [`WORKER`](crate::worker::WORKER) and `run`. If a worker's process dies, only the test that was running fails; a
    /// worker that does not respond, or far exceeds `timeout`, is killed. A worker parses [`Scenario::inputs`] again, so scenarios must be
    /// unchanged since they were read. `None` for threads of this process.
    pub worker: Option<WorkerLocation>,
    /// The implementation of iptables that installs rules.
    pub backend: Backend,
    /// The programs that write the nodes' rules, instead of the generator. Scenarios that they cannot run are left out.
    pub programs: Option<Programs>,
    /// The folder that a capture of each scenario is written to, as pcapng.
    pub pcap: Option<PathBuf>,
    /// The folder that gets a folder for each test that fails: see `svclab report show`.
    pub artifacts: Option<PathBuf>,
    /// The bias to find, the power, and the false-alarm rate of the whole run.
    pub goal: Goal,
    /// Progress counter shared by all labs.
    pub progress: Arc<Progress>,
}

impl Options {
    /// Whether any test of a scenario is run.
    pub fn runs(&self, scenario: &Scenario) -> bool {
        self.selection.of(scenario).next().is_some()
    }

    /// Whether a test is selected.
    fn chooses(&self, test: &Test) -> bool {
        self.selection.chooses(test)
    }
}

/// Runs scenarios in parallel, and passes each report to `finished`, in order, as soon as it is ready.
///
/// The report lists the scenarios in the order in which they are started, without those that have no selected test.
pub fn run(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&ScenarioReport) + Sync)) -> RunReport {
    let begin = Instant::now();
    let (scenarios, others) = proxy::partition(options.programs.as_ref(), scenarios);
    let scheduled = schedule(&scenarios, options);
    scheduled.iter().for_each(|one| clear(&one.scenario, options));
    let all: Vec<&Scenario> = scheduled.iter().map(|one| &*one.scenario).collect();
    let rate = shared_rate(&all, &options.goal);
    let stop = AtomicBool::new(false);
    let run_one = |carrier: &mut Executor<'_>, one: &Scheduled<'_>| run_one(one, options, rate, &stop, carrier);
    let finished = |report: &Option<ScenarioReport>| report.iter().for_each(finished);
    let reports = in_parallel_with(&scheduled, options.jobs, || Executor::new(options), run_one, &finished);
    let reports: Vec<ScenarioReport> = reports.into_iter().flatten().collect();
    let chosen: usize = all.iter().map(|scenario| options.selection.of(scenario).count()).sum();
    let tests = scenarios.iter().flat_map(|scenario| &scenario.tests);
    RunReport {
        not_started: chosen - reports.iter().map(|report| report.tests.len()).sum::<usize>().min(chosen),
        scenarios: reports,
        not_applicable: others
            .iter()
            .map(|(scenario, why)| NotApplicable::of(scenario, why.to_string(), why.help()))
            .collect(),
        filtered: tests.filter(|test| !options.chooses(test)).count(),
        seed: options.shuffle,
        shard: None,
        duration: begin.elapsed(),
    }
}

/// Removes captures and artifacts of earlier runs of a scenario.
fn clear(scenario: &Scenario, options: &Options) {
    if let Some(folder) = &options.pcap {
        let captures = capture::left(folder, &scenario.file, capture::CAPTURE);
        captures.into_iter().for_each(|capture| _ = std::fs::remove_file(capture));
    }
    options.artifacts.iter().for_each(|folder| artifacts::clear(folder, &scenario.file));
}

/// The number of changes of the cluster that had been made when the first probe of a test failed.
#[doc(hidden)]
pub fn changes_before_failure(scenario: &Scenario, failed: &TestReport) -> usize {
    let position = scenario.tests.iter().position(|test| test.name == failed.name).unwrap_or(0);
    let before = scenario.tests[..position].iter().flat_map(|test| &test.steps);
    let first = failed.probes.iter().find(|probe| !probe.judgment.held).map(|probe| &probe.span);
    // For a change during which flows were sent, the state after it is shown.
    let is_failed = |step: &&Step| match step {
        Step::Probe(probe, _) => Some(&probe.span) == first,
        Step::During(_) | Step::Change(_) | Step::Wait(_) => false,
    };
    let own = scenario.tests.get(position).into_iter().flat_map(|test| &test.steps);
    before.chain(own.take_while(|step| !is_failed(step))).filter(|step| step.change().is_some()).count()
}

/// The errors of balance tests that need more flows than a probe may have, for each scenario, if these scenarios are run together.
pub fn balance_errors(scenarios: &[&Scenario], goal: &Goal) -> Vec<Vec<Diagnostic>> {
    let goal = Goal { false_alarm: shared_rate(scenarios, goal), ..*goal };
    let error = |step: &Step| match step {
        Step::Probe(probe, expectation) => {
            let Trouble { message, help, .. } = session::flows(probe, expectation, &goal).err()?.into_trouble();
            Some(Diagnostic { span: probe.span.clone(), length: 1, message, help, also: None })
        }
        Step::Change(_) | Step::During(_) | Step::Wait(_) => None,
    };
    let of_scenario =
        |scenario: &&Scenario| scenario.tests.iter().flat_map(|test| &test.steps).filter_map(error).collect();
    scenarios.iter().map(of_scenario).collect()
}

/// The false-alarm rate of a single judgement, so that the whole run keeps its own.
fn shared_rate(scenarios: &[&Scenario], goal: &Goal) -> FalseAlarmRate {
    goal.false_alarm.shared_by(scenarios.iter().map(|one| judgements(one)).sum::<usize>().max(1))
}

/// Runs one scenario, and retries its tests that do not pass; `None` if the run is being stopped.
fn run_one(
    one: &Scheduled<'_>,
    options: &Options,
    rate: FalseAlarmRate,
    stop: &AtomicBool,
    carrier: &mut Executor<'_>,
) -> Option<ScenarioReport> {
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    let begin = Instant::now();
    let scenario = &*one.scenario;
    let mut syncs = Vec::new();
    let mut carry_out = |attempt: &Attempt| {
        let at_failure = options.fail_fast && options.retries == 0;
        let mut stop = StopFlag { is_set: stop, at_failure, syncs: Vec::new() };
        let (mut tests, error) =
            carrier.carry_out(Assignment { scenario, attempt, progress: &options.progress, supervisor: &mut stop });
        if let Some(trouble) = &error {
            let rest = attempt.selection.of(scenario).skip(tests.len());
            tests.extend(rest.map(|test| TestReport::not_carried_out(test, trouble)));
        }
        syncs = stop.syncs;
        (tests, error)
    };
    let first = Attempt::new(options, rate, one.suffix(0));
    let (mut tests, mut error) = carry_out(&first);
    for number in 1..=options.retries {
        let again: Vec<String> =
            tests.iter().filter(|test| test.can_be_retried()).map(|test| test.name.clone()).collect();
        if again.is_empty() {
            break;
        }
        let (retried, retried_error) = carry_out(&first.only(again, one.suffix(number)));
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
        programs: node_programs(&one.scenario, options.programs.as_ref()),
        syncs,
        notes: notes(&one.scenario, options),
        duration: begin.elapsed(),
    };
    if options.fail_fast && report.status() != Status::Ok {
        stop.store(true, Ordering::Relaxed);
    }
    Some(report)
}

/// The programs that write the rules of a scenario's nodes, for reports.
pub(crate) fn node_programs(scenario: &Scenario, programs: Option<&Programs>) -> Vec<NodeProgram> {
    let of_node = |(node, name, program): (&str, Option<&str>, &Program)| NodeProgram {
        node: node.to_owned(),
        name: name.map(str::to_owned),
        command: program.line(),
        release: program.release().map(str::to_owned),
    };
    programs.into_iter().flat_map(|programs| programs.by_node(scenario)).map(of_node).collect()
}

/// Notes on a run, in addition to its results.
fn notes(scenario: &Scenario, options: &Options) -> Vec<String> {
    let changes = scenario.states().nth(1).is_some();
    let proxy = changes.then_some(&scenario.cluster.proxy);
    let empty = options.pcap.is_some() && !attempt::follows(scenario, &options.selection);
    let captured = empty.then(|| "no capture: all flows of these tests are only counted".to_owned());
    proxy.and_then(conntrack::note).into_iter().chain(captured).collect()
}

/// The number of judgements of a scenario that may fail by chance: three for each balance, by its shares, the previous flow and the source
/// port.
fn judgements(scenario: &Scenario) -> usize {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    let is_tested = |balance: &Option<Balance>| !matches!(balance, None | Some(Balance::All));
    3 * steps.filter(|step| matches!(step, Step::Probe(_, expectation) if is_tested(&expectation.balance))).count()
}
