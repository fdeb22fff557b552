//! The JSON output of `svclab cascade`. `svclab schema cascade` describes every field.

mod sample;
mod step;

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::{cascade, walk};

use self::sample::Sample;
use self::step::{Share, Step};
use super::{Report, sample as sampled};

/// Returns the whole report as a serializable value.
pub fn document(report: &Report) -> impl Serialize {
    Document::of(report)
}

/// How rules balance connections.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The source of the rules.
    source: &'a str,
    /// Notes on all shares.
    notes: &'a [String],
    /// The number of defects, of the rules as a whole and in all cascades.
    defects: usize,
    /// The number of unknown parts in all cascades.
    unknown: usize,
    /// Defects of the rules as a whole.
    structure_defects: Vec<StructureDefect>,
    /// The cascades, in the order of the rules.
    cascades: Vec<Cascade<'a>>,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        let cascades = report
            .cascades
            .iter()
            .enumerate()
            .map(|(index, own)| Cascade::of(own, report.place(index), report.sample(index)));
        Self {
            source: &report.source,
            notes: &report.notes,
            defects: report.defects(),
            unknown: report.unknown(),
            structure_defects: report.structure_defects.iter().map(StructureDefect::of).collect(),
            cascades: cascades.collect(),
        }
    }
}

/// A defect of rules that does not belong to one service.
#[derive(Serialize, JsonSchema)]
struct StructureDefect {
    /// `rejected`, `missing-jump` or `repeated-rule`.
    kind: &'static str,
    /// The defect and its consequence.
    message: String,
}

impl StructureDefect {
    fn of(own: &cascade::StructureDefect) -> Self {
        Self { kind: own.code(), message: own.to_string() }
    }
}

/// How connections to one service port are balanced.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Cascade<'a> {
    /// The service port, `default/web:http`, or the chain if that is unknown.
    service: &'a str,
    /// The protocol; `null` if unknown.
    protocol: Option<&'static str>,
    /// The chain or map that chooses the endpoint.
    chain: &'a str,
    /// The place of the rules; `null` if the input has one rule set.
    place: Option<&'a str>,
    /// The addresses and ports that lead to it.
    frontends: Vec<Frontend>,
    /// The number of endpoints.
    endpoints: usize,
    /// Whether there is session affinity; shares are then those of new clients.
    affinity: bool,
    /// The even share of each endpoint.
    even: Share,
    /// The largest deviation of an endpoint from the even share, relative to it: 0.5 is 50 % too much or too little. `null` if a share is
    /// unknown.
    largest_deviation: Option<f64>,
    /// The rules that take connections, in order.
    steps: Vec<Step<'a>>,
    /// The share that reaches no endpoint; `null` if unknown.
    lost_share: Option<Share>,
    /// Its parts by outcome, in the order of the rules.
    without_endpoint: Vec<Fallen<'a>>,
    /// Connections that are handled differently from those that the shares describe; kube-proxy's own rules have none.
    cases: Vec<Case<'a>>,
    /// `even`, `defective`, or `unknown` if there is no defect but the rules are incomplete.
    assessment: &'static str,
    /// Why the written probabilities are even, or how they are not.
    sentence: String,
    /// The defects.
    defects: Vec<Defect>,
    /// Unknown parts.
    unknown: Vec<Unknown<'a>>,
    /// Results of sampling, if any packets were sent.
    sample: Option<Sample<'a>>,
}

impl<'a> Cascade<'a> {
    fn of(own: &'a cascade::Cascade, place: Option<&'a str>, sample: Option<&'a sampled::Sample>) -> Self {
        Self {
            service: &own.service,
            protocol: own.protocol.map(|protocol| protocol.as_str()),
            chain: &own.chain,
            place,
            frontends: own.frontends.iter().map(Frontend::of).collect(),
            endpoints: own.endpoints,
            affinity: own.has_affinity,
            even: Share::of(own.even()),
            largest_deviation: own.steps.iter().all(|step| own.is_known(step)).then(|| own.largest_deviation()),
            steps: own.steps.iter().map(|step| Step::of(own, step)).collect(),
            lost_share: (!own
                .fallen
                .iter()
                .any(|fallen| matches!(fallen.fate, cascade::ConnectionOutcome::Unknown(_))))
            .then(|| Share::of(own.left)),
            without_endpoint: own.fallen.iter().map(Fallen::of).collect(),
            cases: own.cases.iter().map(Case::of).collect(),
            assessment: own.assessment().code(),
            sentence: own.sentence(),
            defects: own.defects.iter().map(Defect::of).collect(),
            unknown: own.unknown.iter().map(Unknown::of).collect(),
            sample: sample.map(Sample::of),
        }
    }
}

/// A frontend: an address and port that leads to a cascade.
#[derive(Serialize, JsonSchema)]
struct Frontend {
    /// The address; `null` for a node port.
    address: Option<std::net::IpAddr>,
    /// The port.
    port: u16,
    /// The protocol: `tcp`, `udp` or `sctp`.
    protocol: &'static str,
}

impl Frontend {
    fn of(frontend: &cascade::Frontend) -> Self {
        Self { address: frontend.address, port: frontend.port, protocol: frontend.protocol.as_str() }
    }
}

/// A defect.
#[derive(Serialize, JsonSchema)]
struct Defect {
    /// The number of the rule in its chain, if it concerns a single rule.
    rule: Option<usize>,
    /// The kind, in one word.
    kind: &'static str,
    /// The defect and its effect on shares.
    message: String,
}

impl Defect {
    fn of(defect: &cascade::Defect) -> Self {
        let rule = Some(defect.rule).filter(|rule| *rule > 0);
        Self { rule, kind: defect.kind.code(), message: defect.kind.to_string() }
    }
}

/// A part of the connections that reaches no endpoint.
#[derive(Serialize, JsonSchema)]
struct Fallen<'a> {
    /// The number of the rule by which they leave the chain; `null` for the chain's end.
    rule: Option<usize>,
    /// The chain of the rule that decides, if the rule jumps to another one.
    within: Option<&'a str>,
    /// What happens to them.
    fate: ConnectionOutcome<'a>,
    /// Their share of all connections.
    share: Share,
}

impl<'a> Fallen<'a> {
    fn of(own: &'a cascade::Fallen) -> Self {
        let rule = Some(own.rule).filter(|rule| *rule > 0);
        Self {
            rule,
            within: own.within.as_deref(),
            fate: ConnectionOutcome::of(&own.fate),
            share: Share::of(own.share),
        }
    }
}

/// The outcome of connections.
#[derive(Serialize, JsonSchema)]
struct ConnectionOutcome<'a> {
    /// `endpoint`, `returned`, `accepted`, `dropped`, `rejected`, `handed-on` or `unknown`.
    kind: &'static str,
    /// The endpoint, the chain that they continue in, or why it is unknown.
    detail: Option<&'a str>,
}

impl<'a> ConnectionOutcome<'a> {
    fn of(own: &'a cascade::ConnectionOutcome) -> Self {
        let detail = match own {
            cascade::ConnectionOutcome::Endpoint(text)
            | cascade::ConnectionOutcome::Handed(text)
            | cascade::ConnectionOutcome::Unknown(text) => Some(&**text),
            _ => None,
        };
        Self { kind: own.code(), detail }
    }
}

/// Connections that rules handle differently from others.
#[derive(Serialize, JsonSchema)]
struct Case<'a> {
    /// An example, as what distinguishes it from other connections: `from 10.0.0.1`.
    example: &'a str,
    /// The number of the first rule that handles them differently.
    rule: Option<usize>,
    /// Their outcomes, in the order of the rules.
    parts: Vec<CasePart<'a>>,
}

impl<'a> Case<'a> {
    fn of(own: &'a cascade::Case) -> Self {
        let part = |(fate, share): &'a (cascade::ConnectionOutcome, walk::Share)| CasePart {
            fate: ConnectionOutcome::of(fate),
            share: Share::of(*share),
        };
        let rule = Some(own.rule).filter(|rule| *rule > 0);
        Self { example: &own.example, rule, parts: own.fates.iter().map(part).collect() }
    }
}

/// A share of the connections of a case.
#[derive(Serialize, JsonSchema)]
struct CasePart<'a> {
    /// What happens to them.
    fate: ConnectionOutcome<'a>,
    /// Their share of the connections of the case.
    share: Share,
}

/// Something that these rules leave unknown.
#[derive(Serialize, JsonSchema)]
struct Unknown<'a> {
    /// The number of the rule in its chain, if it concerns a single rule.
    rule: Option<usize>,
    /// The share of all new connections concerned, if known.
    share: Option<Share>,
    /// What is unknown, and why.
    message: &'a str,
}

impl<'a> Unknown<'a> {
    fn of(own: &'a cascade::Unknown) -> Self {
        Self { rule: Some(own.rule).filter(|rule| *rule > 0), share: own.share.map(Share::of), message: &own.why }
    }
}
