//! The report for machines. Names are stable: fields may be added, none is renamed or removed without a new `version`.
//!
//! Times are in seconds. Addresses are text: `10.244.1.3:37328`, `[fd00::3]:37328`. What has no value is `null`.
//!
//! | path | meaning |
//! | --- | --- |
//! | `version` | 1 |
//! | `status`, also of scenarios, tests and probes | `ok`, `failed` or `error` |
//! | `counts` | `scenarios`; tests that are `ok`, `failed`, `errors`; tests that were `filtered` out |
//! | `scenarios[]` | `name`, `file`, `status`, `seconds`, `error`, `notes[]`, `tests[]` |
//! | `scenarios[].tests[]` | `name`, `at`, `status`, `seconds`, `error`, `probes[]` |
//! | `...probes[]` | `title`, `at`, `status`, `seconds`, `expected`, `observed`, `flow` or `tally`, `differences[]`, `shown[]`, `balance`, `diagnosis`, `rules[]`, `look` |
//! | `expected` | each part of the expectation in words, by its field: `outcome`, `source`, `reply`, `balance`, `affinity` |
//! | `observed` | the observation in words |
//! | `flow` | `protocol`, `source`, `destination`, `outcome` (`delivered`, `doubled`, `rejected`, `dropped`), `deliveries[]` (`at`, `source`, `destination`), `rejection` (`what`, `by`), `reply`, `path[]` (`place`, `interface`, `direction`: `in` or `out`, `packet`) |
//! | `tally` | `sent`, `sender` (its address), `lost`, `doubled`, `unattributed`, `repeated` (sent again); `delivered` by destination, `sources` by address, `translated`: what rules counted, by destination |
//! | `differences[]` | `field`, `expected`, `observed`, `reason` |
//! | `balance` | `flows`, `held`, `p_value`, `false_alarm_rate`, `endpoints[]`: `name`, `count`, `share` (expected), `p_value`, `low` and `high` (shares that fit the count) |
//! | `diagnosis` | of a probe that failed: `promise`, `prediction[]`, `unpredicted`, `observation`, `meaning`, `kernel` (`alike`, `met`, `difference[]`), `untraced` |
//! | `rules[]` | `place`, `lines[]` |
//! | `at` | `file`, `line`, `column` |
//! | `error` | `cause` (`input`, `environment`, `internal`), `message`, `help`, `at` |

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Serialize;

use super::words::{direction, trouble};
use super::{Counts, Diagnosis, ProbeReport, RunReport, ScenarioReport, Status, TestReport, Trouble};
use crate::judge::{Difference, Shares, observed_words};
use crate::observation::{Delivery, FlowObservation, Observation, ObservedOutcome, Tally, Translations};
use crate::scenario::Span;
use crate::text::{self, path_text};

/// The report as an indented JSON document.
///
/// # Errors
///
/// Where the JSON writer fails; there is no input known that makes it.
pub fn render(run: &RunReport) -> Result<String, serde_json::Error> {
    text::json(&Run::from(run))
}

#[doc(hidden)]
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "svclab run --report json")]
pub struct Run<'a> {
    version: u32,
    status: &'static str,
    seconds: f64,
    counts: Totals,
    scenarios: Vec<Scenario<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Totals {
    scenarios: usize,
    ok: usize,
    failed: usize,
    errors: usize,
    filtered: usize,
}

impl<'a> From<&'a RunReport> for Run<'a> {
    fn from(run: &'a RunReport) -> Self {
        let Counts { scenarios, ok, failed, errors, scenario_errors: _ } = run.counts();
        Self {
            version: 1,
            status: run.status().as_str(),
            seconds: run.duration.as_secs_f64(),
            counts: Totals { scenarios, ok, failed, errors, filtered: run.filtered },
            scenarios: run.scenarios.iter().map(Scenario::from).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    name: &'a str,
    file: String,
    status: &'static str,
    seconds: f64,
    error: Option<Error>,
    notes: &'a [String],
    tests: Vec<Test<'a>>,
}

impl<'a> From<&'a ScenarioReport> for Scenario<'a> {
    fn from(report: &'a ScenarioReport) -> Self {
        Self {
            name: &report.name,
            file: path_text(&report.file),
            status: report.status().as_str(),
            seconds: report.duration.as_secs_f64(),
            error: report.error.clone().map(Error::from),
            notes: &report.notes,
            tests: report.tests.iter().map(Test::from).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Error {
    cause: &'static str,
    message: String,
    help: Option<String>,
    at: Option<Span>,
}

impl From<Trouble> for Error {
    fn from(Trouble { cause, message, help, span }: Trouble) -> Self {
        Self { cause: cause.as_str(), message, help, at: span }
    }
}

#[derive(Serialize, JsonSchema)]
struct Test<'a> {
    name: &'a str,
    at: &'a Span,
    status: &'static str,
    seconds: f64,
    error: Option<Error>,
    probes: Vec<Probe<'a>>,
}

impl<'a> From<&'a TestReport> for Test<'a> {
    fn from(report: &'a TestReport) -> Self {
        Self {
            name: &report.name,
            at: &report.span,
            status: report.status().as_str(),
            seconds: report.duration.as_secs_f64(),
            error: trouble(report).map(Error::from),
            probes: report.probes.iter().map(Probe::from).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Probe<'a> {
    title: &'a str,
    at: &'a Span,
    status: &'static str,
    seconds: f64,
    expected: BTreeMap<&'static str, &'a str>,
    observed: String,
    flow: Option<Flow<'a>>,
    tally: Option<Sums<'a>>,
    differences: Vec<Part<'a>>,
    shown: &'a [String],
    balance: Option<Fit<'a>>,
    diagnosis: Option<Sources<'a>>,
    rules: Vec<Rules<'a>>,
    look: Option<&'a str>,
}

impl<'a> From<&'a ProbeReport> for Probe<'a> {
    fn from(report: &'a ProbeReport) -> Self {
        let (flow, tally) = match &report.observation {
            Observation::Flow(flow) => (Some(Flow::from(&**flow)), None),
            Observation::Tally(tally) => (None, Some(Sums::from(tally))),
        };
        let status = if report.verdict.held { Status::Ok } else { Status::Failed };
        Self {
            title: &report.title,
            at: &report.span,
            status: status.as_str(),
            seconds: report.duration.as_secs_f64(),
            expected: report.expected.iter().map(|(field, words)| (field.as_str(), words.as_str())).collect(),
            observed: observed_words(&report.observation),
            flow,
            tally,
            differences: report.verdict.differences.iter().map(Part::from).collect(),
            shown: &report.verdict.shown,
            balance: report.verdict.balance.as_ref().map(Fit::from),
            diagnosis: report.diagnosis.as_ref().map(Sources::from),
            rules: report.rules.iter().map(|rules| Rules { place: &rules.place, lines: &rules.lines }).collect(),
            look: report.look.as_deref(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Sources<'a> {
    promise: Option<&'a str>,
    prediction: &'a [String],
    unpredicted: Option<&'a str>,
    observation: &'a str,
    meaning: &'a str,
    kernel: Option<Kernel<'a>>,
    untraced: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
struct Kernel<'a> {
    as_predicted: usize,
    matched: usize,
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

#[derive(Serialize, JsonSchema)]
struct Rules<'a> {
    place: &'a str,
    lines: &'a [String],
}

#[derive(Serialize, JsonSchema)]
struct Part<'a> {
    field: &'static str,
    expected: &'a str,
    observed: &'a str,
    reason: &'a str,
}

impl<'a> From<&'a Difference> for Part<'a> {
    fn from(Difference { field, expected, observed, reason }: &'a Difference) -> Self {
        Self { field: field.as_str(), expected, observed, reason }
    }
}

#[derive(Serialize, JsonSchema)]
struct Flow<'a> {
    protocol: &'static str,
    source: SocketAddr,
    destination: SocketAddr,
    outcome: &'static str,
    deliveries: Vec<Place<'a>>,
    /// Where a packet that was dropped was seen last: `node/worker`, `underlay`.
    #[serde(rename = "droppedAt")]
    dropped_at: Option<&'a str>,
    rejection: Option<Rejection<'a>>,
    reply: Option<SocketAddr>,
    path: Vec<Sighting<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Place<'a> {
    at: &'a str,
    source: SocketAddr,
    destination: SocketAddr,
}

#[derive(Serialize, JsonSchema)]
struct Rejection<'a> {
    what: &'a str,
    by: IpAddr,
}

#[derive(Serialize, JsonSchema)]
struct Sighting<'a> {
    place: &'a str,
    interface: &'a str,
    direction: &'static str,
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
                .map(|told| Rejection { what: &told.what, by: told.by }),
            reply: flow.reply,
            path: flow.path.iter().map(sighting).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Sums<'a> {
    sent: u64,
    sender: Option<IpAddr>,
    lost: u64,
    doubled: u64,
    unattributed: u64,
    repeated: u64,
    delivered: &'a BTreeMap<SocketAddr, u64>,
    sources: &'a BTreeMap<IpAddr, u64>,
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

#[derive(Serialize, JsonSchema)]
struct Fit<'a> {
    flows: u64,
    held: bool,
    p_value: f64,
    false_alarm_rate: f64,
    endpoints: Vec<Endpoint<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Endpoint<'a> {
    name: &'a str,
    count: u64,
    share: f64,
    p_value: f64,
    low: f64,
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
