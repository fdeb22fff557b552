//! Attempts in a process of their own: the run sends an [`Order`], and an [`Answer`] before each test.

use std::borrow::Cow;
use std::io;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::attempt::{Assignment, Attempt, Results, Supervisor};
use super::in_process;
use crate::report::{SyncTime, TestReport, Trouble};
use crate::scenario::Test;
use crate::worker::{self, Command, Slot, Texts};

/// An order to a worker: an attempt to run.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    attempt: Cow<'a, Attempt>,
}

/// An event during an attempt.
#[derive(Serialize, Deserialize)]
enum Event {
    /// The test at this index is about to start; the worker waits for an [`Answer`].
    Starts(usize),
    /// A test has ended.
    Ended(Box<TestReport>),
    /// Programs under test have followed a change.
    Synced(Vec<SyncTime>),
}

/// The run's answer to [`Event::Starts`].
#[derive(Serialize, Deserialize)]
enum Answer {
    /// The test may start.
    Start,
    /// Neither this test nor a later one may start.
    Stop,
}

/// The state in which a worker died before its attempt was finished.
pub(super) struct Died {
    /// The finished tests, without the diagnoses of failures.
    pub(super) ended: Vec<TestReport>,
    /// The test that was running, and since when.
    pub(super) under_way: Option<(String, Instant)>,
    /// How the worker died.
    pub(super) trouble: Trouble,
}

/// Runs an attempt in a worker.
///
/// # Errors
///
/// If the worker died.
pub(super) fn carry_out(slot: &mut Slot<'_>, assigned: Assignment<'_>) -> Result<Results, Box<Died>> {
    let Assignment { scenario, attempt, progress, supervisor } = assigned;
    let (mut ended, mut under_way) = (Vec::new(), None);
    let order = Order { scenario: Texts::of(scenario), attempt: Cow::Borrowed(attempt) };
    let results = slot.ask_with(&order, progress, |event, patience| match event {
        Event::Starts(index) => {
            let test = scenario.tests.get(index).ok_or(io::ErrorKind::InvalidData)?;
            let may_start = supervisor.may_start(test);
            under_way = may_start.then(|| (test.name.clone(), Instant::now()));
            if may_start {
                patience.task_starts(attempt.timeout);
            }
            Ok(Some(if may_start { Answer::Start } else { Answer::Stop }))
        }
        Event::Ended(report) => {
            under_way = None;
            patience.task_ended();
            supervisor.ended(&report);
            ended.push(*report);
            Ok(None)
        }
        Event::Synced(times) => {
            supervisor.synced(&times);
            Ok(None)
        }
    });
    results.map_err(|error| Box::new(Died { ended, under_way, trouble: error.into_trouble() }))
}

/// Serves a run: see `worker::serve`.
///
/// # Errors
///
/// If standard input and output are not the pipes of a run.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, progress, command| {
        let scenario = order.scenario.scenario_for(order.attempt.programs.as_ref())?;
        let names = scenario.tests.iter().map(|test| test.name.clone()).collect();
        Ok(in_process::carry_out(Assignment {
            scenario: &scenario,
            attempt: &order.attempt,
            progress,
            supervisor: &mut Run { command, names },
        }))
    })
}

/// The run, which decides whether tests start.
struct Run<'c> {
    command: &'c Command,
    /// The names of all tests, in order.
    names: Vec<String>,
}

impl Supervisor for Run<'_> {
    fn may_start(&mut self, test: &Test) -> bool {
        let Some(index) = self.names.iter().position(|name| *name == test.name) else { return false };
        let asked = self.command.event(&Event::Starts(index)).and_then(|()| self.command.answer());
        // If the run is gone, no one needs the test.
        asked.is_ok_and(|answer| matches!(answer, Answer::Start))
    }

    fn ended(&mut self, report: &TestReport) {
        // If the run is gone, the next test notices it.
        let _ = self.command.event(&Event::Ended(Box::new(report.clone())));
    }

    fn synced(&mut self, times: &[SyncTime]) {
        let _ = self.command.event(&Event::Synced(times.to_vec()));
    }
}
