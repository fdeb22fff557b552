//! The report for machines, the result in `svclab run`'s JSON envelope. `svclab schema run` describes every field.
//!
//! Names are stable: fields may be added; none is renamed or removed without a new version of the envelope. Times are in seconds.
//! Addresses are text: `10.244.1.3:37328`, `[fd00::3]:37328`. What has no value is `null`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Serialize;

use super::console;
use super::words::{direction, trouble};
use super::{
    Counts, Diagnosis, Machines, ProbeReport, RunReport, ScenarioReport, ShardOf, Status, TestReport, Trouble,
};
use crate::judge::{Difference, Shares, observed_words};
use crate::observation::{Delivery, FlowObservation, Observation, ObservedOutcome, Tally, Translations};
use crate::page::Settings;
use crate::scenario::Span;
use crate::text::path_text;

/// The report as a serializable value.
pub fn document(run: &RunReport) -> impl Serialize {
    Run::from(run)
}

/// The results of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run<'a> {
    /// The worst result: `ok`, `failed` or `error`.
    status: &'static str,
    /// The duration.
    seconds: f64,
    /// The numbers of scenarios and tests.
    counts: Totals,
    /// The seed of the order; `null` for the order of the command line.
    seed: Option<u64>,
    /// The shard; `null` for a whole run.
    shard: Option<ShardOf>,
    /// The scenarios, in the order of the command line.
    scenarios: Vec<Scenario<'a>>,
}

/// Numbers of scenarios and tests.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Totals {
    /// The number of scenarios.
    scenarios: usize,
    /// The number of tests that passed.
    ok: usize,
    /// The number of passed tests that did not pass at first.
    flaky: usize,
    /// The number of tests that failed.
    failed: usize,
    /// The number of tests that could not be run.
    errors: usize,
    /// The number of tests that were filtered out.
    filtered: usize,
    /// The number of tests that were not started, because an earlier one did not pass.
    not_started: usize,
}

impl<'a> From<&'a RunReport> for Run<'a> {
    fn from(run: &'a RunReport) -> Self {
        let Counts { scenarios, ok, flaky, failed, errors, scenario_errors: _ } = run.counts();
        let (filtered, not_started) = (run.filtered, run.not_started);
        Self {
            status: run.status().as_str(),
            seconds: run.duration.as_secs_f64(),
            counts: Totals { scenarios, ok, flaky, failed, errors, filtered, not_started },
            seed: run.seed,
            shard: run.shard,
            scenarios: run.scenarios.iter().map(Scenario::from).collect(),
        }
    }
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    /// The name.
    name: &'a str,
    /// The file, as given on the command line.
    file: String,
    /// Which repetition it is, from 1; `null` where scenarios are not repeated.
    repetition: Option<u32>,
    /// The worst result: `ok`, `failed` or `error`.
    status: &'static str,
    /// The duration, including the lab's.
    seconds: f64,
    /// The error of the lab; `null` if there is none.
    error: Option<Error>,
    /// What to know about the results, in words.
    notes: &'a [String],
    /// The machines and services at the start.
    machines: &'a Machines,
    /// The tests, in order.
    tests: Vec<Test<'a>>,
}

impl<'a> From<&'a ScenarioReport> for Scenario<'a> {
    fn from(report: &'a ScenarioReport) -> Self {
        Self {
            name: &report.name,
            file: path_text(&report.file),
            repetition: report.repetition,
            status: report.status().as_str(),
            seconds: report.duration.as_secs_f64(),
            error: report.error.clone().map(Error::from),
            notes: &report.notes,
            machines: &report.machines,
            tests: report.tests.iter().map(Test::from).collect(),
        }
    }
}

/// An error that left nothing to judge.
#[derive(Serialize, JsonSchema)]
struct Error {
    /// The kind of error: `input`, `environment` or `internal`.
    cause: &'static str,
    /// The message, a lower-case fragment.
    message: String,
    /// How to fix it, in a sentence.
    help: Option<String>,
    /// The place in the input.
    at: Option<Span>,
}

impl From<Trouble> for Error {
    fn from(Trouble { cause, message, help, span }: Trouble) -> Self {
        Self { cause: cause.as_str(), message, help, at: span }
    }
}

/// A test.
#[derive(Serialize, JsonSchema)]
struct Test<'a> {
    /// The name.
    name: &'a str,
    /// The place in the scenario.
    at: &'a Span,
    /// The tags.
    tags: &'a [String],
    /// The result of the last attempt: `ok`, `failed` or `error`.
    status: &'static str,
    /// Whether it passed, but not at first.
    flaky: bool,
    /// The duration.
    seconds: f64,
    /// Why not all probes were sent; `null` if they were.
    error: Option<Error>,
    /// The probes, in order.
    probes: Vec<Probe<'a>>,
    /// The failure as `svclab run` prints it; `null` if it passed.
    text: Option<String>,
    /// Earlier attempts, none of which passed.
    earlier: Vec<Test<'a>>,
}

impl<'a> From<&'a TestReport> for Test<'a> {
    fn from(report: &'a TestReport) -> Self {
        Self {
            name: &report.name,
            at: &report.span,
            tags: &report.tags,
            status: report.status().as_str(),
            flaky: report.is_flaky(),
            seconds: report.duration.as_secs_f64(),
            error: trouble(report).map(Error::from),
            probes: report.probes.iter().map(Probe::from).collect(),
            text: (report.status() != Status::Ok).then(|| console::test(report, Settings::default())),
            earlier: report.earlier.iter().map(Test::from).collect(),
        }
    }
}

/// A probe.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Probe<'a> {
    /// The flow, in words: `pod/client > service/nginx:80 tcp`.
    title: &'a str,
    /// The place of the step in the scenario.
    at: &'a Span,
    /// `ok` or `failed`.
    status: &'static str,
    /// The duration.
    seconds: f64,
    /// The expectation in words, by field: `outcome`, `source`, `reply`, `balance`, `affinity`.
    expected: BTreeMap<&'static str, &'a str>,
    /// The observation, in words.
    observed: String,
    /// The flow; `null` if flows were counted.
    flow: Option<Flow<'a>>,
    /// The counts of flows; `null` for a single flow.
    tally: Option<Sums<'a>>,
    /// The differences between expectation and observation.
    differences: Vec<Part<'a>>,
    /// What was measured, in words.
    shown: &'a [String],
    /// The test of the endpoints' shares.
    balance: Option<Fit<'a>>,
    /// The three sources on a failed probe.
    diagnosis: Option<Sources<'a>>,
    /// The rules that decided on a failed probe.
    rules: Vec<Rules<'a>>,
    /// The command that explains a failed probe rule by rule.
    look: Option<&'a str>,
}

impl<'a> From<&'a ProbeReport> for Probe<'a> {
    fn from(report: &'a ProbeReport) -> Self {
        let (flow, tally) = match &report.observation {
            Observation::Flow(flow) => (Some(Flow::from(&**flow)), None),
            Observation::Tally(tally) => (None, Some(Sums::from(tally))),
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
            differences: report.judgment.differences.iter().map(Part::from).collect(),
            shown: &report.judgment.shown,
            balance: report.judgment.balance.as_ref().map(Fit::from),
            diagnosis: report.diagnosis.as_ref().map(Sources::from),
            rules: report.rules.iter().map(|rules| Rules { place: &rules.place, lines: &rules.lines }).collect(),
            look: report.look.as_deref(),
        }
    }
}

/// The three sources on one flow.
#[derive(Serialize, JsonSchema)]
struct Sources<'a> {
    /// What the Service API promises, in words.
    promise: Option<&'a str>,
    /// What the rules do, in words: each branch with its share.
    prediction: &'a [String],
    /// Why there is no prediction.
    unpredicted: Option<&'a str>,
    /// The observation when the flow was sent again, in words.
    observation: &'a str,
    /// Which sources disagree, in a sentence.
    meaning: &'a str,
    /// The rules that the kernel matched, compared with the prediction.
    kernel: Option<Kernel<'a>>,
    /// Why the kernel was not traced.
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

/// Rules of one machine.
#[derive(Serialize, JsonSchema)]
struct Rules<'a> {
    /// The machine: `node/worker`.
    place: &'a str,
    /// The rules.
    lines: &'a [String],
}

/// A difference between expectation and observation.
#[derive(Serialize, JsonSchema)]
struct Part<'a> {
    /// The field: `outcome`, `flows`, `source`, `reply`, `balance` or `affinity`.
    field: &'static str,
    /// The expectation, in words.
    expected: &'a str,
    /// The observation, in words.
    observed: &'a str,
    /// Why they differ, in words.
    reason: &'a str,
}

impl<'a> From<&'a Difference> for Part<'a> {
    fn from(Difference { field, expected, observed, reason }: &'a Difference) -> Self {
        Self { field: field.as_str(), expected, observed, reason }
    }
}

/// A single flow.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Flow<'a> {
    /// The protocol: `tcp`, `udp` or `sctp`.
    protocol: &'static str,
    /// The source as sent.
    source: SocketAddr,
    /// The destination as sent.
    destination: SocketAddr,
    /// `delivered`, `doubled`, `rejected` or `dropped`.
    outcome: &'static str,
    /// The deliveries: one, or several if the packet was doubled.
    deliveries: Vec<Place<'a>>,
    /// The place that captured a dropped packet last: `node/worker`, `underlay`.
    dropped_at: Option<&'a str>,
    /// The rejection that the sender received.
    rejection: Option<Rejection<'a>>,
    /// The source of the reply that the sender received.
    reply: Option<SocketAddr>,
    /// The captured packets, in order.
    path: Vec<Sighting<'a>>,
}

/// A delivery.
#[derive(Serialize, JsonSchema)]
struct Place<'a> {
    /// The receiver: `pod/nginx`.
    at: &'a str,
    /// The source that it sees.
    source: SocketAddr,
    /// The destination that it sees.
    destination: SocketAddr,
}

/// A rejection.
#[derive(Serialize, JsonSchema)]
struct Rejection<'a> {
    /// The ICMP error or reset, in words.
    what: &'a str,
    /// The address that sent it.
    by: IpAddr,
}

/// A captured packet.
#[derive(Serialize, JsonSchema)]
struct Sighting<'a> {
    /// The machine, or `underlay`.
    place: &'a str,
    /// The interface.
    interface: &'a str,
    /// `in` or `out`.
    direction: &'static str,
    /// The packet, in words.
    packet: &'a str,
}

impl<'a> From<&'a FlowObservation> for Flow<'a> {
    fn from(flow: &'a FlowObservation) -> Self {
        let (outcome, deliveries, rejection): (_, &[Delivery], _) = match &flow.outcome {
            ObservedOutcome::Delivered(delivery) => ("delivered", std::slice::from_ref(delivery), None),
            ObservedOutcome::Doubled(deliveries) => ("doubled", deliveries, None),
            ObservedOutcome::Rejected(rejection) => ("rejected", &[], Some(rejection)),
            ObservedOutcome::Dropped { .. } => ("dropped", &[], None),
        };
        let place = |to: &'a Delivery| Place { at: &to.at, source: to.source, destination: to.destination };
        let sighting = |seen: &'a crate::observation::Sighting| Sighting {
            place: &seen.place,
            interface: &seen.interface,
            direction: direction(seen.direction),
            packet: &seen.packet,
        };
        Self {
            protocol: flow.protocol.as_str(),
            source: flow.source,
            destination: flow.destination,
            outcome,
            deliveries: deliveries.iter().map(place).collect(),
            dropped_at: match &flow.outcome {
                ObservedOutcome::Dropped { at, .. } => Some(at),
                _ => None,
            },
            rejection: rejection
                .or(flow.contradiction.as_ref())
                .map(|rejection| Rejection { what: &rejection.what, by: rejection.by }),
            reply: flow.reply,
            path: flow.path.iter().map(sighting).collect(),
        }
    }
}

/// Counts of flows.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Sums<'a> {
    /// The number of flows sent.
    sent: u64,
    /// The sender's address.
    sender: Option<IpAddr>,
    /// The number of flows that were not delivered.
    lost: u64,
    /// The number of flows delivered more than once.
    doubled: u64,
    /// The number of deliveries without a known flow.
    unattributed: u64,
    /// The number of flows sent again after a loss inside the kernel.
    repeated: u64,
    /// The numbers of flows by the destination that received them.
    delivered: &'a BTreeMap<SocketAddr, u64>,
    /// The numbers of flows by the source that receivers saw.
    sources: &'a BTreeMap<IpAddr, u64>,
    /// The numbers of flows by destination, as the rules' counters have them.
    translated: Option<&'a BTreeMap<SocketAddr, u64>>,
}

impl<'a> From<&'a Tally> for Sums<'a> {
    fn from(tally: &'a Tally) -> Self {
        let Tally { sent, sender, lost, doubled, unattributed, repeated, delivered, sources, .. } = tally;
        let (sent, sender, lost, doubled) = (*sent, *sender, *lost, *doubled);
        let (unattributed, repeated) = (*unattributed, *repeated);
        let translated = tally.translated.as_deref().map(Translations::by_destination);
        Self { sent, sender, lost, doubled, unattributed, repeated, delivered, sources, translated }
    }
}

/// The test of endpoints' shares.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Fit<'a> {
    /// The number of flows.
    flows: u64,
    /// Whether the shares are as expected.
    held: bool,
    /// The probability that correct shares deviate at least as much.
    p_value: f64,
    /// The rate at which the test fails on correct shares, at most.
    false_alarm_rate: f64,
    /// The endpoints.
    endpoints: Vec<Endpoint<'a>>,
}

/// An endpoint's count and share.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    /// The endpoint.
    name: &'a str,
    /// The number of flows that it received.
    count: u64,
    /// Its expected share, from 0 to 1.
    share: f64,
    /// The p-value of this endpoint alone.
    p_value: f64,
    /// The lower end of the confidence interval of its share.
    low: f64,
    /// The upper end of the confidence interval of its share.
    high: f64,
}

impl<'a> From<&'a Shares> for Fit<'a> {
    fn from(Shares { names, fit }: &'a Shares) -> Self {
        let endpoints = names.iter().zip(&fit.cells).map(|(name, cell)| Endpoint {
            name,
            count: cell.count,
            share: cell.share,
            p_value: rounded(cell.p_value),
            low: rounded(cell.interval.low),
            high: rounded(cell.interval.high),
        });
        Self {
            flows: fit.flows,
            held: fit.held,
            p_value: rounded(fit.p_value),
            false_alarm_rate: fit.rate.get(),
            endpoints: endpoints.collect(),
        }
    }
}

/// A number with six digits: those behind them differ between machines.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}
