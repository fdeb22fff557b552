//! The result of `svclab cascade` for machines. `svclab schema cascade` describes every field.

mod sample;
mod step;

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::{cascade, walk};

use self::sample::Sample;
use self::step::{Share, Step};
use super::{Report, sample as sampled};

/// The whole report as a serializable value.
pub fn document(report: &Report) -> impl Serialize {
    Document::of(report)
}

/// How rules balance connections.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// Where the rules come from.
    source: &'a str,
    /// What a reader must know of all shares.
    notes: &'a [String],
    /// How many defects the rules have, as a whole and in all cascades.
    defects: usize,
    /// How many things all cascades leave unknown.
    unknown: usize,
    /// What is wrong with the rules as a whole.
    structure_defects: Vec<FrameDefect>,
    /// The cascades, in the order of the rules.
    cascades: Vec<Cascade<'a>>,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        let cascades = report.cascades.iter().enumerate().map(|(index, own)| Cascade::of(own, report.sample(index)));
        Self {
            source: &report.source,
            notes: &report.notes,
            defects: report.defects(),
            unknown: report.unknown(),
            structure_defects: report.frame_defects.iter().map(FrameDefect::of).collect(),
            cascades: cascades.collect(),
        }
    }
}

/// Something wrong with rules that does not belong to one service.
#[derive(Serialize, JsonSchema)]
struct FrameDefect {
    /// `rejected`, `missing-jump` or `repeated-rule`.
    kind: &'static str,
    /// What is wrong, and what follows from it.
    message: String,
}

impl FrameDefect {
    fn of(own: &cascade::FrameDefect) -> Self {
        Self { kind: own.code(), message: own.to_string() }
    }
}

/// How connections to one service port are balanced.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Cascade<'a> {
    /// The service port, `default/web:http`, or the chain where that is not known.
    service: &'a str,
    /// The protocol; `null` if it is not known.
    protocol: Option<&'static str>,
    /// The chain or map that chooses the endpoint.
    chain: &'a str,
    /// The addresses and ports that lead to it.
    frontends: Vec<Frontend>,
    /// How many endpoints it has.
    endpoints: usize,
    /// Whether clients stay with their endpoint; shares are those of new clients then.
    affinity: bool,
    /// The share of each if all had the same.
    even: Share,
    /// The greatest deviation of an endpoint from even, relative to that: 0.5 is half too much or too little. `null` if a share is unknown.
    largest_deviation: Option<f64>,
    /// The rules that take connections, in their order.
    steps: Vec<Step<'a>>,
    /// The share that gets no endpoint; `null` if that is unknown.
    lost_share: Option<Share>,
    /// The parts of it by their outcome, in the order of rules.
    without_endpoint: Vec<Fallen<'a>>,
    /// Connections that are handled differently from those that the shares are of: kube-proxy's own rules have none.
    cases: Vec<Case<'a>>,
    /// `even`, `defective`, or `unknown` where nothing is wrong but the rules do not show all.
    assessment: &'static str,
    /// Why the written chances are even, or that they are not.
    sentence: String,
    /// The defects.
    defects: Vec<Defect>,
    /// Unknown parts.
    unknown: Vec<Unknown<'a>>,
    /// Results of sampling, if any packets were sent.
    sample: Option<Sample<'a>>,
}

impl<'a> Cascade<'a> {
    fn of(own: &'a cascade::Cascade, sample: Option<&'a sampled::Sample>) -> Self {
        Self {
            service: &own.service,
            protocol: own.protocol.map(|protocol| protocol.as_str()),
            chain: &own.chain,
            frontends: own.frontends.iter().map(Frontend::of).collect(),
            endpoints: own.endpoints,
            affinity: own.has_affinity,
            even: Share::of(own.even()),
            largest_deviation: own.steps.iter().all(|step| own.is_known(step)).then(|| own.largest_deviation()),
            steps: own.steps.iter().map(|step| Step::of(own, step)).collect(),
            lost_share: (!own.fallen.iter().any(|fallen| matches!(fallen.fate, cascade::Fate::Unknown(_))))
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
    /// The number of the rule in its chain, if it is one rule's.
    rule: Option<usize>,
    /// What kind, in one word.
    kind: &'static str,
    /// What is wrong, and what that does to shares.
    message: String,
}

impl Defect {
    fn of(defect: &cascade::Defect) -> Self {
        let rule = Some(defect.rule).filter(|rule| *rule > 0);
        Self { rule, kind: defect.kind.code(), message: defect.kind.to_string() }
    }
}

/// A part of the connections that gets no endpoint.
#[derive(Serialize, JsonSchema)]
struct Fallen<'a> {
    /// The number of the rule by which they leave the chain; `null` for the chain's end.
    rule: Option<usize>,
    /// The chain of the rule that decides, if the rule leads to another one.
    within: Option<&'a str>,
    /// What happens to them.
    fate: Fate<'a>,
    /// Their share of all connections.
    share: Share,
}

impl<'a> Fallen<'a> {
    fn of(own: &'a cascade::Fallen) -> Self {
        let rule = Some(own.rule).filter(|rule| *rule > 0);
        Self { rule, within: own.within.as_deref(), fate: Fate::of(&own.fate), share: Share::of(own.share) }
    }
}

/// The outcome of connections.
#[derive(Serialize, JsonSchema)]
struct Fate<'a> {
    /// `endpoint`, `returned`, `accepted`, `dropped`, `rejected`, `handed-on` or `unknown`.
    kind: &'static str,
    /// The endpoint, the chain that they go on with, or why it is unknown.
    detail: Option<&'a str>,
}

impl<'a> Fate<'a> {
    fn of(own: &'a cascade::Fate) -> Self {
        let detail = match own {
            cascade::Fate::Endpoint(text) | cascade::Fate::Handed(text) | cascade::Fate::Unknown(text) => Some(&**text),
            _ => None,
        };
        Self { kind: own.code(), detail }
    }
}

/// Connections that rules treat otherwise than others.
#[derive(Serialize, JsonSchema)]
struct Case<'a> {
    /// One of them, by what distinguishes it from the others: `from 10.0.0.1`.
    example: &'a str,
    /// The number of the first rule that treats them otherwise.
    rule: Option<usize>,
    /// Their outcome, in the order of rules.
    parts: Vec<CasePart<'a>>,
}

impl<'a> Case<'a> {
    fn of(own: &'a cascade::Case) -> Self {
        let part = |(fate, share): &'a (cascade::Fate, walk::Share)| CasePart {
            fate: Fate::of(fate),
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
    fate: Fate<'a>,
    /// Their share of the connections of the case.
    share: Share,
}

/// Something that these rules do not say.
#[derive(Serialize, JsonSchema)]
struct Unknown<'a> {
    /// The number of the rule in its chain, if it is one rule's.
    rule: Option<usize>,
    /// How much of all new connections it is about, if that is known.
    share: Option<Share>,
    /// What is not known, and why.
    message: &'a str,
}

impl<'a> Unknown<'a> {
    fn of(own: &'a cascade::Unknown) -> Self {
        Self { rule: Some(own.rule).filter(|rule| *rule > 0), share: own.share.map(Share::of), message: &own.why }
    }
}
