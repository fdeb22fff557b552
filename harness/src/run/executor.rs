//! Runs attempts in this process, or in workers that may die.

use std::time::Instant;

use super::attempt::{Assignment, Attempt, LabArtifacts, Results};
use super::in_worker::{self, Died};
use super::{Options, RunError, files, in_process};
use crate::environment::Environment;
use crate::report::{TestReport, Trouble};
use crate::scenario::{Scenario, Test};
use crate::worker::{Kind, Slot, WorkerLocation};

/// An executor for a thread's attempts, one after the other.
pub(super) struct Executor<'o> {
    /// A worker, which is started on demand; `None` to run in the thread itself.
    slot: Option<Slot<'o>>,
    /// The environment of the workers, if it is not this machine's.
    environment: Option<&'o Environment>,
}

impl<'o> Executor<'o> {
    pub(super) fn new(options: &'o Options) -> Self {
        let location = options.worker.as_ref();
        Self {
            slot: location.map(|location| Slot::new(location, Kind::Run)),
            environment: location.and_then(WorkerLocation::environment),
        }
    }

    /// Runs an attempt. If a worker dies during a test, that test gets an error, and the tests after it are run in another worker.
    pub(super) fn carry_out(&mut self, mut assigned: Assignment<'_>) -> (Vec<TestReport>, Option<Trouble>) {
        let Some(slot) = &mut self.slot else {
            let (scenario, attempt) = (assigned.scenario, assigned.attempt);
            return written(in_process::carry_out(assigned), scenario, attempt, None);
        };
        let (scenario, attempt) = (assigned.scenario, assigned.attempt);
        let mut tests = Vec::new();
        let mut part = attempt.clone();
        loop {
            match in_worker::carry_out(slot, assigned.with(&part)) {
                Ok(results) => {
                    let (ended, error) = written(results, scenario, &part, self.environment);
                    tests.extend(ended);
                    return (tests, error);
                }
                Err(died) => {
                    let died_of = died.under_way.is_some();
                    let (ended, trouble) = results(*died, scenario);
                    // The test already has a more specific error.
                    let _ = files::write(&LabArtifacts::default(), scenario, &part, &ended, self.environment);
                    ended.last().into_iter().for_each(|test| assigned.supervisor.ended(test));
                    tests.extend(ended);
                    let rest = rest(scenario, attempt, tests.last());
                    if !died_of || !rest.first().is_some_and(|next| assigned.supervisor.may_start(next)) {
                        return (tests, (!died_of).then_some(trouble));
                    }
                    let rest = rest.iter().map(|test| test.name.clone()).collect();
                    part = attempt.only(rest, attempt.suffix.clone());
                }
            }
        }
    }
}

/// Writes the files of an attempt.
fn written(
    results: Results,
    scenario: &Scenario,
    attempt: &Attempt,
    environment: Option<&Environment>,
) -> (Vec<TestReport>, Option<Trouble>) {
    let Results { tests, error, kept } = results;
    let written = files::write(&kept, scenario, attempt, &tests, environment);
    (tests, error.or_else(|| written.err().map(RunError::into_trouble)))
}

/// The tests of a worker that has died; the last is the one that was running, if any.
fn results(died: Died, scenario: &Scenario) -> (Vec<TestReport>, Trouble) {
    let Died { mut ended, under_way, trouble } = died;
    let test = under_way.and_then(|(name, begin)| {
        scenario.tests.iter().find(|test| test.name == name).map(|test| TestReport {
            error: Some(trouble.clone()),
            duration: Instant::now().saturating_duration_since(begin),
            ..TestReport::of(test)
        })
    });
    ended.extend(test);
    (ended, trouble)
}

/// The selected tests after the last one with a result.
fn rest<'a>(scenario: &'a Scenario, attempt: &Attempt, last: Option<&TestReport>) -> Vec<&'a Test> {
    let chosen = || attempt.selection.of(scenario);
    let last = last.and_then(|last| chosen().position(|test| test.name == last.name));
    chosen().skip(last.map_or(0, |last| last + 1)).collect()
}
