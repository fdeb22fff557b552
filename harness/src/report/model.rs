//! The result of a run, as a tree of values.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::counts::{Counts, Status};
use super::machines::Machines;
use super::programs::NodeProgram;
use super::trouble::{Cause, Trouble};
use crate::judge::{Field, Judgment};
use crate::observation::Observation;
use crate::scenario::{Scenario, Span, Test};
use crate::text::path_text;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunReport {
    /// The scenarios that were run, in the order of the input.
    pub scenarios: Vec<ScenarioReport>,
    /// The scenarios that the programs under test cannot run. They have not passed.
    pub not_applicable: Vec<NotApplicable>,
    /// Tests that a filter left out.
    pub filtered: usize,
    /// Tests that were not started because an earlier one did not pass.
    pub not_started: usize,
    /// The seed of the order, if it was random.
    pub seed: Option<u64>,
    /// The shard, if scenarios were split.
    pub shard: Option<ShardOf>,
    /// Wall-clock time.
    pub duration: Duration,
}

/// A scenario that the programs under test cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotApplicable {
    /// Its name.
    pub name: String,
    /// Its file, as given on the command line.
    pub file: String,
    /// The reason.
    pub reason: String,
    /// The fix, as a sentence.
    #[serde(default)]
    pub help: String,
}

impl NotApplicable {
    pub(crate) fn of(scenario: &Scenario, reason: String, help: String) -> Self {
        Self { name: scenario.name.clone(), file: path_text(&scenario.file), reason, help }
    }
}

/// A shard of a run that several machines share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardOf {
    /// The number of the shard, from 1.
    pub number: usize,
    /// The number of shards.
    pub total: usize,
    /// The number of scenarios of all shards together.
    pub scenarios: usize,
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScenarioReport {
    /// Its name.
    pub name: String,
    /// The file it was read from, as the user named it.
    pub file: PathBuf,
    /// The number of the repetition, from 1, if scenarios were repeated.
    pub repetition: Option<u32>,
    /// Its machines and services.
    pub(crate) machines: Machines,
    /// Its tests, in order.
    pub tests: Vec<TestReport>,
    /// The error of the lab, because of which tests were not run.
    pub error: Option<Trouble>,
    /// The programs under test that wrote the rules, by node; empty if the generator did.
    pub programs: Vec<NodeProgram>,
    /// How long programs under test took to write the rules for new objects, in the order of the changes. For a change during which flows
    /// were sent, there is a time only if the program reports when it synced.
    pub syncs: Vec<SyncTime>,
    /// Notes on the results: fragments in lower case.
    pub notes: Vec<String>,
    /// Wall-clock time, lab included.
    pub duration: Duration,
}

/// How long the program of a node took to write the rules for new objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncTime {
    /// The node.
    pub node: String,
    /// The number of the change; 0 is the start of the program.
    pub step: usize,
    /// The time in seconds.
    pub seconds: f64,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestReport {
    /// Its name.
    pub name: String,
    /// Its place in the scenario.
    pub span: Span,
    /// Its tags, sorted.
    pub tags: Vec<String>,
    /// The probes of the last attempt, in order.
    pub probes: Vec<ProbeReport>,
    /// The reason why not all probes were sent.
    pub error: Option<Trouble>,
    /// Earlier attempts, none of which passed.
    pub earlier: Vec<TestReport>,
    /// Wall-clock time.
    pub duration: Duration,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The place of its step in the scenario.
    pub span: Span,
    /// The flow in words: `pod/client > service/nginx:80 tcp`, see `probe_words`.
    pub title: String,
    /// The expectation in words: see `judge::expected_parts`.
    pub expected: Vec<(Field, String)>,
    /// The observation.
    pub observation: Observation,
    /// How the observation compares with the expectation.
    pub judgment: Judgment,
    /// Promise, prediction and observation of the flow, for a probe that failed.
    pub diagnosis: Option<Diagnosis>,
    /// The rules that decided, for a probe that failed.
    pub rules: Vec<RuleExcerpt>,
    /// The command that explains the flow rule by rule, for a probe that failed.
    pub explain_command: Option<String>,
    /// Wall-clock time.
    pub duration: Duration,
}

/// The three sources for one flow of a failed probe, which was sent again for this.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The promise; `None` if the sender has no address.
    pub promise: Option<String>,
    /// The prediction: each branch with its share.
    pub prediction: Vec<String>,
    /// The reason why there is no prediction.
    pub unpredicted: Option<String>,
    /// The observation of the repeated flow.
    pub observation: String,
    /// The sources that disagree, and the conclusion.
    pub meaning: String,
    /// How far the rules that the kernel matched agree with the prediction.
    pub kernel: Option<KernelMatch>,
    /// The rules that the kernel matched, one a line: `node/worker  nat KUBE-SERVICES rule 3`. Reports leave them out.
    pub trace: Vec<String>,
    /// The reason why the kernel was not traced.
    pub untraced: Option<String>,
}

/// How far the rules that the kernel matched agree with a predicted path.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KernelMatch {
    /// The number of rules matched as predicted, one after the other.
    pub as_predicted: usize,
    /// The number of rules matched in total.
    pub matched: usize,
    /// The first difference, in lines: its place, the rule predicted, the rule matched.
    pub difference: Option<Vec<String>>,
}

/// An excerpt of the rules of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleExcerpt {
    /// The machine: `node/worker`.
    pub place: String,
    /// The rules, one a line.
    pub lines: Vec<String>,
}

impl TestReport {
    /// The report of a test that was not run because the lab had failed.
    pub(crate) fn not_carried_out(test: &Test, lab: &Trouble) -> Self {
        Self { error: Some(lab.for_test_not_run()), ..Self::of(test) }
    }

    /// The report of a test before it is run.
    pub(crate) fn of(test: &Test) -> Self {
        Self {
            name: test.name.clone(),
            span: test.span.clone(),
            tags: test.tags.iter().map(ToString::to_string).collect(),
            probes: Vec::new(),
            error: None,
            earlier: Vec::new(),
            duration: Duration::ZERO,
        }
    }

    /// Whether it did not pass but may pass when retried: an error in the input remains.
    pub(crate) fn can_be_retried(&self) -> bool {
        let is_input = self.error.as_ref().is_some_and(|error| error.cause == Cause::Input);
        self.status() != Status::Ok && !is_input
    }

    /// The report after one more attempt.
    pub(crate) fn retried(&mut self, mut new: Self) {
        std::mem::swap(self, &mut new);
        self.earlier = std::mem::take(&mut new.earlier);
        self.earlier.push(new);
    }

    /// Whether it passed, but not at the first attempt.
    pub fn is_flaky(&self) -> bool {
        self.status() == Status::Ok && !self.earlier.is_empty()
    }

    /// Its result. A test without probes is an error.
    pub fn status(&self) -> Status {
        if self.error.is_some() || self.probes.is_empty() {
            Status::Error
        } else if self.probes.iter().all(|probe| probe.judgment.held) {
            Status::Ok
        } else {
            Status::Failed
        }
    }
}

impl ScenarioReport {
    /// Whether a test's only error is that the lab failed.
    pub(crate) fn is_explained_by_lab(&self, test: &TestReport) -> bool {
        self.error.as_ref().is_some_and(|lab| test.error.as_ref() == Some(&lab.for_test_not_run()))
    }

    /// Whether it has an error that none of its tests reports.
    pub(crate) fn is_wrong_by_itself(&self) -> bool {
        let is_reported = self.tests.iter().any(|test| test.status() == Status::Error);
        (self.error.is_some() || self.tests.is_empty()) && !is_reported
    }

    /// Its result: the worst of its tests. A scenario without tests is an error.
    pub fn status(&self) -> Status {
        if self.error.is_some() {
            return Status::Error;
        }
        self.tests.iter().map(TestReport::status).max().unwrap_or(Status::Error)
    }
}

impl RunReport {
    /// Its result: the worst of its scenarios; ok if there are none.
    pub fn status(&self) -> Status {
        self.scenarios.iter().map(ScenarioReport::status).max().unwrap_or(Status::Ok)
    }

    /// The most severe cause of an error.
    pub fn cause(&self) -> Option<Cause> {
        let tests = self.scenarios.iter().flat_map(|scenario| &scenario.tests).filter_map(|test| test.error.as_ref());
        let scenarios = self.scenarios.iter().filter_map(|scenario| scenario.error.as_ref());
        tests.chain(scenarios).map(|trouble| trouble.cause).max()
    }

    /// The numbers of tests by result.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { scenarios: self.scenarios.len(), ..Counts::default() };
        for scenario in &self.scenarios {
            for test in &scenario.tests {
                counts.flaky += usize::from(test.is_flaky());
                match test.status() {
                    Status::Ok => counts.ok += 1,
                    Status::Failed => counts.failed += 1,
                    Status::Error => counts.errors += 1,
                }
            }
            counts.scenario_errors += usize::from(scenario.is_wrong_by_itself());
        }
        counts
    }
}
