//! A probe with its expectation and observation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::during::During;
use super::flow::Flow;
use super::tally::{Fit, Sums};
use crate::judge::{Difference, observed_words};
use crate::observation::Observation;
use crate::report::{Diagnosis, ProbeReport, Status};
use crate::scenario::Span;

/// A probe.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe<'a> {
    /// The flow, in words: `pod/client > service/nginx:80 tcp`.
    title: &'a str,
    /// The place of the step in the scenario.
    at: &'a Span,
    /// `ok` or `failed`.
    status: &'static str,
    /// The duration.
    seconds: f64,
    /// The expectation in words, by field: `outcome`, `source`, `reply`, `balance`, `affinity`; of flows during a change `lost`, `rejected`,
    /// `stale`, `followedWithin`.
    expected: BTreeMap<&'static str, &'a str>,
    /// The observation, in words.
    observed: String,
    /// The flow; `null` if there were several.
    flow: Option<Flow<'a>>,
    /// The counts of flows; `null` for a single flow.
    tally: Option<Sums<'a>>,
    /// Flows that were sent at a rate during a change; `null` for others.
    during: Option<During<'a>>,
    /// The differences between expectation and observation.
    differences: Vec<Part<'a>>,
    /// The measurements, in words.
    measured: &'a [String],
    /// The test of the endpoints' shares.
    balance: Option<Fit<'a>>,
    /// The three sources for a failed probe.
    diagnosis: Option<Sources<'a>>,
    /// The rules that decided on a failed probe.
    rules: Vec<Rules<'a>>,
    /// The command that explains a failed probe rule by rule.
    explain_command: Option<&'a str>,
}

impl<'a> From<&'a ProbeReport> for Probe<'a> {
    fn from(report: &'a ProbeReport) -> Self {
        let (flow, tally, during) = match &report.observation {
            Observation::Flow(flow) => (Some(Flow::from(&**flow)), None, None),
            Observation::Tally(tally) => (None, Some(Sums::from(tally)), None),
            Observation::Stream(stream) => (None, None, Some(During::from(&**stream))),
        };
        let status = if report.judgment.held { Status::Ok } else { Status::Failed };
        Self {
            title: &report.title,
            at: &report.span,
            status: status.as_str(),
            seconds: report.duration.as_secs_f64(),
            expected: report.expected.iter().map(|(field, words)| (field.as_str(), words.as_str())).collect(),
            observed: observed_words(&report.observation),
            flow,
            tally,
            during,
            differences: report.judgment.differences.iter().map(Part::from).collect(),
            measured: &report.judgment.shown,
            balance: report.judgment.balance.as_ref().map(Fit::from),
            diagnosis: report.diagnosis.as_ref().map(Sources::from),
            rules: report.rules.iter().map(|rules| Rules { place: &rules.place, lines: &rules.lines }).collect(),
            explain_command: report.explain_command.as_deref(),
        }
    }
}

/// A difference between expectation and observation.
#[derive(Serialize, JsonSchema)]
struct Part<'a> {
    /// The field: `outcome`, `flows`, `source`, `reply`, `balance` or `affinity`; of flows during a change `lost`, `rejected`, `stale` or
    /// `followedWithin`.
    field: &'static str,
    /// The expectation, in words.
    expected: &'a str,
    /// The observation, in words.
    observed: &'a str,
    /// The reason why they differ, in words.
    reason: &'a str,
}

impl<'a> From<&'a Difference> for Part<'a> {
    fn from(Difference { field, expected, observed, reason }: &'a Difference) -> Self {
        Self { field: field.as_str(), expected, observed, reason }
    }
}

/// The three sources for one flow.
#[derive(Serialize, JsonSchema)]
struct Sources<'a> {
    /// The promise of the Service API, in words.
    promise: Option<&'a str>,
    /// The prediction from the rules, in words: each branch with its share.
    prediction: &'a [String],
    /// The reason why there is no prediction.
    unpredicted: Option<&'a str>,
    /// The observation when the flow was sent again, in words.
    observation: &'a str,
    /// The sources that disagree, in a sentence.
    meaning: &'a str,
    /// The rules that the kernel matched, compared with the prediction.
    kernel: Option<Kernel<'a>>,
    /// The reason why the kernel was not traced.
    untraced: Option<&'a str>,
}

/// The rules that the kernel matched, compared with the prediction.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Kernel<'a> {
    /// The number of rules matched as predicted, one after the other.
    as_predicted: usize,
    /// The number of rules matched in total.
    matched: usize,
    /// The first difference, in lines: its place, the rule predicted, the rule matched.
    difference: Option<&'a [String]>,
}

/// Rules of one machine.
#[derive(Serialize, JsonSchema)]
struct Rules<'a> {
    /// The machine: `node/worker`.
    place: &'a str,
    /// The rules.
    lines: &'a [String],
}

impl<'a> From<&'a Diagnosis> for Sources<'a> {
    fn from(diagnosis: &'a Diagnosis) -> Self {
        let kernel = diagnosis.kernel.as_ref().map(|way| Kernel {
            as_predicted: way.as_predicted,
            matched: way.matched,
            difference: way.difference.as_deref(),
        });
        Self {
            promise: diagnosis.promise.as_deref(),
            prediction: &diagnosis.prediction,
            unpredicted: diagnosis.unpredicted.as_deref(),
            observation: &diagnosis.observation,
            meaning: &diagnosis.meaning,
            kernel,
            untraced: diagnosis.untraced.as_deref(),
        }
    }
}
