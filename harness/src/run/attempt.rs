//! An attempt at a scenario: chosen tests in one lab.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Options, Selection};
use crate::lab::{Backend, Listing};
use crate::observation::Capture;
use crate::probe::Progress;
use crate::proxy::Programs;
use crate::report::{Status, SyncTime, TestReport, Trouble};
use crate::scenario::{Flows, Scenario, Step, Test};
use crate::stats::{FalseAlarmRate, Goal};
use crate::worker::WorkerLocation;

/// The tests that are run in a lab, and the files that are written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The selected tests; for the others only the changes that later tests build on are made.
    pub(super) selection: Selection,
    /// The bias that balance tests must find; the rate is that of one judgement.
    pub(super) goal: Goal,
    pub(super) backend: Backend,
    /// The programs that write the nodes' rules, instead of the generator.
    pub(super) programs: Option<Programs>,
    /// The longest time for one test.
    pub(super) timeout: Option<Duration>,
    /// The options that chose the kernel, for suggested commands; `None` if it is that of the machine.
    pub(super) kernel: Option<String>,
    /// The folder of captures.
    pub(super) pcap: Option<OsString>,
    /// The folder of artifacts.
    pub(super) artifacts: Option<OsString>,
    /// The suffix of file names.
    pub(super) suffix: String,
}

impl Attempt {
    pub(super) fn new(options: &Options, rate: FalseAlarmRate, suffix: String) -> Self {
        Self {
            selection: options.selection.clone(),
            goal: Goal { false_alarm: rate, ..options.goal },
            backend: options.backend,
            programs: options.programs.clone().map(|programs| programs.within(options.timeout)),
            timeout: options.timeout,
            kernel: options.worker.as_ref().and_then(WorkerLocation::options).map(str::to_owned),
            pcap: options.pcap.clone().map(Into::into),
            artifacts: options.artifacts.clone().map(Into::into),
            suffix,
        }
    }

    /// An attempt at only some of the tests.
    pub(super) fn only(&self, tests: Vec<String>, suffix: String) -> Self {
        Self { selection: Selection { only: Some(tests), ..self.selection.clone() }, suffix, ..self.clone() }
    }

    /// The folder of the capture; `None` if no packet is followed, because the taps then see only what kernels send on their own.
    pub(super) fn capture(&self, scenario: &Scenario) -> Option<&Path> {
        self.pcap.as_ref().filter(|_| follows(scenario, &self.selection)).map(Path::new)
    }
}

/// Whether a packet of a selected test is followed: flows that are only counted are not captured.
pub(super) fn follows(scenario: &Scenario, selection: &Selection) -> bool {
    let followed = |step: &Step| matches!(step, Step::Probe(probe, _) if probe.flows == Flows::Exactly(1));
    selection.of(scenario).flat_map(|test| &test.steps).any(followed)
}

/// A supervisor, which decides before each selected test whether it may start, and receives each result.
pub(super) trait Supervisor: Send {
    /// Whether a test may start. If not, no later test is started either.
    fn may_start(&mut self, test: &Test) -> bool;
    /// Receives the report of a finished test.
    fn ended(&mut self, report: &TestReport);
    /// Receives the sync times of programs under test after a change.
    fn synced(&mut self, times: &[SyncTime]);
}

/// A supervisor that can stop a run after its first test that does not pass.
pub(super) struct StopFlag<'a> {
    /// Whether no further test of any scenario may start.
    pub(super) is_set: &'a AtomicBool,
    /// Whether a test that does not pass sets it.
    pub(super) at_failure: bool,
    /// The sync times of programs under test.
    pub(super) syncs: Vec<SyncTime>,
}

impl Supervisor for StopFlag<'_> {
    fn may_start(&mut self, _: &Test) -> bool {
        !self.is_set.load(Ordering::Relaxed)
    }

    fn ended(&mut self, report: &TestReport) {
        if self.at_failure && report.status() != Status::Ok {
            self.is_set.store(true, Ordering::Relaxed);
        }
    }

    fn synced(&mut self, times: &[SyncTime]) {
        self.syncs.extend_from_slice(times);
    }
}

/// An attempt to run.
pub(super) struct Assignment<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) attempt: &'a Attempt,
    /// The flows sent so far.
    pub(super) progress: &'a Arc<Progress>,
    pub(super) supervisor: &'a mut dyn Supervisor,
}

impl Assignment<'_> {
    /// An assignment for another attempt at the scenario.
    pub(super) fn with<'a>(&'a mut self, attempt: &'a Attempt) -> Assignment<'a> {
        Assignment { scenario: self.scenario, attempt, progress: self.progress, supervisor: self.supervisor }
    }
}

/// The results of an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) tests: Vec<TestReport>,
    /// The error because of which the other tests were not run.
    pub(super) error: Option<Trouble>,
    pub(super) kept: LabArtifacts,
}

/// Data from a lab, in addition to the results of its tests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LabArtifacts {
    /// The captured frames.
    pub(super) frames: Vec<Capture>,
    /// The state of the lab after each test that failed, by the test's name.
    pub(super) states: BTreeMap<String, Vec<Listing>>,
}
