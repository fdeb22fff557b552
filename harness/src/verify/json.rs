//! What verifications found, for machines. Names are stable: fields may be added, none is renamed or removed without a new
//! `version`.
//!
//! Times are in seconds. What has no value is `null`.
//!
//! | path | meaning |
//! | --- | --- |
//! | `version` | 1 |
//! | `status`, also of scenarios | `ok`, `failed` or `error` |
//! | `scenarios[]` | `name`, `file`, `status`, `seconds`, `error`; where it was verified, `nodes` and `services` (how many), `flows`, `not_promised` (flows of which nothing is promised), `asked[]`, `findings[]` |
//! | `asked[]` | `from` (a vantage point), `kind` of address (`cluster-ip`, `external-ip`, `load-balancer`, `node-port`, `loopback`), `flows`, `parted` (flows that the sources part about, also where that is no failure) |
//! | `findings[]` | `disagreement` (`rules`, `network`, `unkept`, `kernel`, `model`, `all`, `unknown`, `known`), `fails`, `meaning` in a sentence, `what` differs, `flows`, `example` |
//! | `example` | `flow`, `service`, `promise`, `prediction[]`, `observation`, `rules[]` on the way, all in words |
//! | `error` | `cause` (`input`, `environment`, `internal`), `message`, `help` |

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Example, Finding};
use super::verification::{AddressKind, Asked, Verification};
use super::{Options, Verified};
use crate::report::Trouble;
use crate::sources::Disagreement;
use crate::text::{self, path_text};

/// The verifications as an indented JSON document.
///
/// # Errors
///
/// Where the JSON writer fails; there is no input known that makes it.
pub fn json(all: &[Verified], options: &Options) -> Result<String, serde_json::Error> {
    let scenarios: Vec<Scenario<'_>> = all.iter().map(|verified| Scenario::of(verified, options)).collect();
    let has = |status: &str| scenarios.iter().any(|scenario| scenario.status == status);
    let status = ["error", "failed"].into_iter().find(|status| has(status)).unwrap_or("ok");
    text::json(&Document { version: 1, status, scenarios })
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "svclab verify --format json")]
pub struct Document<'a> {
    version: u32,
    status: &'static str,
    scenarios: Vec<Scenario<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    name: &'a str,
    file: String,
    status: &'static str,
    seconds: Option<f64>,
    error: Option<Error<'a>>,
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

impl<'a> Scenario<'a> {
    fn of(verified: &'a Verified, options: &Options) -> Self {
        let found = verified.result.as_ref().ok();
        Self {
            name: &verified.name,
            file: path_text(&verified.file),
            status: match (found, verified.holds(options)) {
                (None, _) => "error",
                (Some(_), true) => "ok",
                (Some(_), false) => "failed",
            },
            seconds: found.map(|found| found.duration.as_secs_f64()),
            error: verified.result.as_ref().err().map(Error::of),
            found: found.map(|found| Found::of(found, options)),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Error<'a> {
    cause: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> Error<'a> {
    fn of(trouble: &'a Trouble) -> Self {
        Self { cause: trouble.cause.as_str(), message: &trouble.message, help: trouble.help.as_deref() }
    }
}

#[derive(Serialize, JsonSchema)]
struct Found<'a> {
    nodes: usize,
    services: usize,
    flows: usize,
    not_promised: usize,
    asked: Vec<Row<'a>>,
    findings: Vec<Parted<'a>>,
}

impl<'a> Found<'a> {
    fn of(verification: &'a Verification, options: &Options) -> Self {
        Self {
            nodes: verification.nodes,
            services: verification.services,
            flows: verification.flows(),
            not_promised: verification.not_promised,
            asked: verification.asked.iter().map(Row::of).collect(),
            findings: verification.findings.iter().map(|finding| Parted::of(finding, options)).collect(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Row<'a> {
    from: &'a str,
    kind: &'static str,
    flows: usize,
    disagreeing: usize,
}

impl<'a> Row<'a> {
    fn of(asked: &'a Asked) -> Self {
        let kind = match asked.kind {
            AddressKind::ClusterIp => "cluster-ip",
            AddressKind::ExternalIp => "external-ip",
            AddressKind::LoadBalancer => "load-balancer",
            AddressKind::NodePort => "node-port",
            AddressKind::Loopback => "loopback",
        };
        Self { from: &asked.from, kind, flows: asked.flows, disagreeing: asked.disagreeing }
    }
}

#[derive(Serialize, JsonSchema)]
struct Parted<'a> {
    disagreement: &'static str,
    fails: bool,
    meaning: &'static str,
    what: &'a str,
    flows: usize,
    example: Shown<'a>,
}

impl<'a> Parted<'a> {
    fn of(finding: &'a Finding, options: &Options) -> Self {
        let Finding { disagreement, what, flows, example } = finding;
        let word = match disagreement {
            Disagreement::Rules => "rules",
            Disagreement::Network => "network",
            Disagreement::Unkept => "unkept",
            Disagreement::Kernel => "kernel",
            Disagreement::Model => "model",
            Disagreement::All => "all",
            Disagreement::Unknown => "unknown",
            Disagreement::Known => "known",
        };
        let fails = disagreement.fails(options.allow_unknown);
        let (meaning, example) = (disagreement.sentence(), Shown::of(example));
        Self { disagreement: word, fails, meaning, what, flows: *flows, example }
    }
}

#[derive(Serialize, JsonSchema)]
struct Shown<'a> {
    flow: &'a str,
    service: Option<&'a str>,
    promise: &'a str,
    prediction: &'a [String],
    observation: &'a str,
    rules: &'a [String],
}

impl<'a> Shown<'a> {
    fn of(example: &'a Example) -> Self {
        Self {
            flow: &example.flow,
            service: example.service.as_deref(),
            promise: &example.promise,
            prediction: &example.prediction,
            observation: &example.observation,
            rules: &example.rules,
        }
    }
}
