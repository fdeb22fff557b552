//! Results of any command that runs scenarios.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::environment::Environment;
use crate::report::{Counts, Machines, NOT_RUN, NodeProgram, ShardOf, Status};

/// The results of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The command: `run`, `verify`, `mutate` or `diff`.
    pub(crate) command: String,
    /// The machine and the programs.
    pub(crate) environment: Environment,
    /// The shard; `None` for a whole run.
    pub(crate) shard: Option<ShardOf>,
    /// The seed of the order, if it was random.
    pub(crate) seed: Option<u64>,
    /// Wall-clock time in seconds, if it was measured.
    pub(crate) seconds: Option<f64>,
    /// Tests that were filtered out.
    pub(crate) filtered: usize,
    /// Tests that were not started, because an earlier one did not pass.
    pub(crate) not_started: usize,
    /// The scenarios.
    pub suites: Vec<Suite>,
}

/// A scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suite {
    /// The name.
    pub name: String,
    /// The file, as given on the command line.
    pub file: String,
    /// The number of the repetition.
    #[serde(default)]
    pub(crate) repetition: Option<u32>,
    /// Wall-clock time in seconds.
    pub seconds: Option<f64>,
    /// The error of the lab.
    pub error: Option<Problem>,
    /// Notes on the results.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// The machines and services.
    #[serde(default)]
    pub(crate) machines: Option<Machines>,
    /// The programs under test that wrote the rules, by node.
    #[serde(default)]
    pub(crate) programs: Vec<NodeProgram>,
    /// The tests; for `verify` the findings, for `mutate` the kinds of mutations, for `diff` the changes.
    #[serde(rename = "tests")]
    pub cases: Vec<Case>,
}

/// A test, or its counterpart in another command.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Case {
    /// The name.
    pub name: String,
    /// The place in the scenario.
    pub(crate) at: Option<Place>,
    /// The tags.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// The result of the last attempt.
    pub status: Status,
    /// Whether it passed, but not at the first attempt.
    #[serde(default)]
    pub(crate) flaky: bool,
    /// Wall-clock time in seconds.
    pub(crate) seconds: Option<f64>,
    /// The reason why not everything was tried.
    pub error: Option<Problem>,
    /// The failure as the command prints it.
    pub text: Option<String>,
    /// The probes, or examples of findings.
    #[serde(rename = "probes")]
    pub(crate) checks: Vec<Check>,
    /// Earlier attempts.
    #[serde(default)]
    pub(crate) earlier: Vec<Case>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Place {
    /// The file, as given on the command line.
    pub(crate) file: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column, from 1.
    pub(crate) column: usize,
}

/// An error that left nothing to judge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Problem {
    /// The kind: `input`, `environment` or `internal`.
    pub cause: String,
    /// The message.
    pub message: String,
    /// The fix, in a sentence.
    pub help: Option<String>,
    /// The place in the input.
    #[serde(default)]
    pub(crate) at: Option<Place>,
}

/// A probe, or an example of a finding.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Check {
    /// The flow, in words.
    pub(crate) title: String,
    /// The place in the scenario.
    pub(crate) at: Option<Place>,
    /// `ok` or `failed`.
    pub(crate) status: Status,
    /// The expectation in words, by field.
    #[serde(default)]
    pub(crate) expected: BTreeMap<String, String>,
    /// The observation, in words.
    pub(crate) observed: String,
    /// The captured packets.
    #[serde(default)]
    pub(crate) flow: Option<Flow>,
    /// The differences between expectation and observation.
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
    /// The measurements, in words.
    #[serde(default)]
    pub(crate) measured: Vec<String>,
    /// The shares of endpoints.
    #[serde(default)]
    pub(crate) balance: Option<Balance>,
    /// Flows during a change.
    #[serde(default)]
    pub(crate) during: Option<During>,
    /// The three sources.
    #[serde(default)]
    pub(crate) diagnosis: Option<Sources>,
    /// The rules that decided, by machine.
    #[serde(default)]
    pub(crate) rules: Vec<Rules>,
    /// The command that explains the flow.
    #[serde(default)]
    pub(crate) explain_command: Option<String>,
}

/// A flow that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Flow {
    /// The captured packets, in order.
    pub(crate) path: Vec<Sighting>,
}

/// A captured packet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Sighting {
    /// The machine, or `underlay`.
    pub(crate) place: String,
    /// The interface.
    pub(crate) interface: String,
    /// `in` or `out`.
    pub(crate) direction: String,
    /// The packet, in words.
    pub(crate) packet: String,
}

/// A difference between expectation and observation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Difference {
    /// The part that differs.
    pub(crate) field: String,
    /// The expectation.
    pub(crate) expected: String,
    /// The observation.
    pub(crate) observed: String,
    /// The reason why they differ.
    pub(crate) reason: String,
}

/// The shares of endpoints.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Balance {
    /// The number of flows.
    pub(crate) flows: u64,
    /// Whether the shares are as expected.
    pub(crate) passed: bool,
    /// The probability that correct shares deviate at least as much.
    pub(crate) p_value: f64,
    /// The endpoints.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// An endpoint's share.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Endpoint {
    /// The endpoint.
    pub(crate) name: String,
    /// The flows that it received.
    pub(crate) count: u64,
    /// The expected share, from 0 to 1.
    pub(crate) share: f64,
    /// The lower end of the confidence interval.
    pub(crate) low: f64,
    /// The upper end of the confidence interval.
    pub(crate) high: f64,
}

/// Flows that were sent at a rate during a change.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct During {
    /// The node that the sender is on.
    pub(crate) node: Option<String>,
    /// Flows per second.
    pub(crate) rate: u32,
    /// How long flows were sent before the change, in seconds.
    pub(crate) before: f64,
    /// How long flows were sent after the change, in seconds.
    pub(crate) after: f64,
    /// The number of flows.
    pub(crate) sent: u64,
    /// When they followed the change.
    pub(crate) followed: Option<Follows>,
    /// Their outcomes over time.
    pub(crate) timeline: Vec<TimelineRow>,
}

/// When flows followed a change.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Follows {
    /// When the first did, in seconds relative to the change.
    pub(crate) first: Option<f64>,
}

/// A row of the timeline: the flows with one outcome over time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct TimelineRow {
    /// The endpoint, or the outcome.
    pub(crate) name: String,
    /// The outcome: `answered`, `stale`, `rejected` or `lost`.
    pub(crate) fate: String,
    /// The number of flows in each slot.
    pub(crate) counts: Vec<u32>,
}

/// The three sources for one flow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Sources {
    /// The promise of the Service API.
    pub(crate) promise: Option<String>,
    /// The prediction from the rules: each branch with its share.
    pub(crate) prediction: Vec<String>,
    /// The reason why there is no prediction.
    #[serde(default)]
    pub(crate) unpredicted: Option<String>,
    /// The observation of the kernel.
    pub(crate) observation: String,
    /// The sources that disagree.
    pub(crate) meaning: String,
    /// The rules that the kernel matched.
    #[serde(default)]
    pub(crate) kernel: Option<Kernel>,
}

/// The rules that the kernel matched, compared with the prediction.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kernel {
    /// The number of rules matched as predicted, one after the other.
    pub(crate) as_predicted: usize,
    /// The number of rules matched in total.
    pub(crate) matched: usize,
    /// The first difference, in lines.
    pub(crate) difference: Option<Vec<String>>,
}

/// Rules of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Rules {
    /// The machine.
    pub(crate) place: String,
    /// The rules.
    pub(crate) lines: Vec<String>,
}

impl Suite {
    /// Its result: the worst of its tests; an error if there are none.
    pub fn status(&self) -> Status {
        match &self.error {
            Some(_) => Status::Error,
            None => self.cases.iter().map(|case| case.status).max().unwrap_or(Status::Error),
        }
    }

    /// Whether the only error of a test is that the lab failed.
    pub(super) fn explains(&self, case: &Case) -> bool {
        let is_bare = |error: &Problem| error.message == NOT_RUN && error.help.is_none() && error.at.is_none();
        self.error.is_some() && case.error.as_ref().is_some_and(is_bare)
    }

    /// Whether it has an error that none of its tests reports.
    pub(super) fn is_wrong_by_itself(&self) -> bool {
        self.status() == Status::Error && !self.cases.iter().any(|case| case.status == Status::Error)
    }
}

impl Results {
    /// The worst result; ok if there is none.
    pub fn status(&self) -> Status {
        self.suites.iter().map(Suite::status).max().unwrap_or(Status::Ok)
    }

    /// The numbers of tests by result, and of scenarios with an error that none of their tests reports.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts { scenarios: self.suites.len(), ..Counts::default() };
        for suite in &self.suites {
            for case in &suite.cases {
                counts.flaky += usize::from(case.flaky);
                match case.status {
                    Status::Ok => counts.ok += 1,
                    Status::Failed => counts.failed += 1,
                    Status::Error => counts.errors += 1,
                }
            }
            counts.scenario_errors += usize::from(suite.is_wrong_by_itself());
        }
        counts
    }
}
