//! The result of `svclab cascade` for machines. `svclab schema cascade` describes every field.

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::cascade;
use svclab_rules::walk;

use super::{Report, sample};

/// The whole report as a serializable value.
pub fn document(report: &Report) -> impl Serialize {
    Document::of(report)
}

/// How rules share connections out.
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
    frame_defects: Vec<FrameDefect>,
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
            frame_defects: report.frame_defects.iter().map(FrameDefect::of).collect(),
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

/// How connections to one service port are shared out.
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
    /// The greatest deviation of an endpoint from even, relative to that: 0.5 is half too much or too little. `null` where a share is unknown.
    largest_deviation: Option<f64>,
    /// The rules that take connections, in their order.
    steps: Vec<Step<'a>>,
    /// The share that gets no endpoint; `null` where that is unknown.
    left: Option<Share>,
    /// What becomes of that, in the order of rules.
    fallen: Vec<Fallen<'a>>,
    /// Connections that are treated otherwise than those that all shares are of: kube-proxy's own rules have none.
    cases: Vec<Case<'a>>,
    /// `even`, `defective`, or `unknown` where nothing is wrong but the rules do not show all.
    verdict: &'static str,
    /// Why the written chances are even, or that they are not.
    sentence: String,
    /// The defects.
    defects: Vec<Defect>,
    /// What these rules do not say.
    unknown: Vec<Unknown<'a>>,
    /// What came of real packets, where any were sent.
    sample: Option<Sample<'a>>,
}

impl<'a> Cascade<'a> {
    fn of(own: &'a cascade::Cascade, sample: Option<&'a sample::Sample>) -> Self {
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
            left: (!own.fallen.iter().any(|fallen| matches!(fallen.fate, cascade::Fate::Unknown(_))))
                .then(|| Share::of(own.left)),
            fallen: own.fallen.iter().map(Fallen::of).collect(),
            cases: own.cases.iter().map(Case::of).collect(),
            verdict: own.assessment().code(),
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

/// A rule that takes a part of the connections that come to it.
#[derive(Serialize, JsonSchema)]
struct Step<'a> {
    /// Its number in the chain, from 1.
    rule: usize,
    /// Where it leads to: `10.244.1.2:80`.
    endpoint: &'a str,
    /// The endpoint's own chain, where it has one.
    chain: Option<&'a str>,
    /// What it takes of what comes to it.
    chance: Chance,
    /// What it takes of all; `null` where these rules do not say, as are the other shares.
    share: Option<Share>,
    /// How far the share is off even, relative to that.
    deviation: Option<f64>,
    /// What it and those before it take of all.
    cumulative: Option<Share>,
}

impl<'a> Step<'a> {
    fn of(own: &cascade::Cascade, step: &'a cascade::Step) -> Self {
        let known = own.is_known(step);
        Self {
            rule: step.rule,
            endpoint: &step.endpoint,
            chain: Some(&*step.chain).filter(|chain| !chain.is_empty()),
            chance: Chance::of(step.chance),
            share: known.then(|| Share::of(step.share)),
            deviation: known.then(|| own.deviation(step)),
            cumulative: known.then(|| Share::of(step.cumulative)),
        }
    }
}

/// What a rule takes of the connections that come to it: those whose draw is below the threshold.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Chance {
    /// iptables' `statistic --mode random`.
    Random(Drawn),
    /// All.
    Always(Drawn),
    /// nft's `numgen random`.
    Numgen(Drawn),
    /// iptables' `statistic --mode nth`: some of so many packets, in turn.
    Nth(Turn),
    /// Those that fulfil a condition of the packet; the share is that of the connections that all shares are of.
    Condition,
}

/// Some packets of every so many, in turn.
#[derive(Serialize, JsonSchema)]
struct Turn {
    /// The number of packets taken.
    part: u32,
    /// Of every so many packets.
    every: u32,
}

/// A random choice.
#[derive(Serialize, JsonSchema)]
struct Drawn {
    /// As the rules have it: `0.33333333349`.
    written: String,
    /// The number of draws that match.
    threshold: u32,
    /// Out of how many the kernel draws.
    draws: u64,
}

impl Chance {
    fn of(chance: cascade::Chance) -> Self {
        let drawn = || Drawn { written: chance.words(), threshold: chance.threshold(), draws: chance.draws() };
        match chance {
            cascade::Chance::Below(_) => Self::Random(drawn()),
            cascade::Chance::Always => Self::Always(drawn()),
            cascade::Chance::Drawn { .. } => Self::Numgen(drawn()),
            cascade::Chance::Nth { part, every } => Self::Nth(Turn { part, every }),
            cascade::Chance::Condition => Self::Condition,
        }
    }
}

/// A share of connections. The true value is not smaller than `value`, and by at most `error` greater, beside the last bit of the
/// number itself.
#[derive(Serialize, JsonSchema)]
struct Share {
    /// From 0 to 1.
    value: f64,
    /// The true value exceeds `value` by at most this.
    error: f64,
    /// The share itself where it is exact, as text because of its size: `1/3`.
    fraction: Option<String>,
}

impl Share {
    fn of(share: walk::Share) -> Self {
        let fraction = share.fraction().map(|(numerator, denominator)| format!("{numerator}/{denominator}"));
        Self { value: share.to_f64(), error: share.error(), fraction }
    }
}

/// A defect.
#[derive(Serialize, JsonSchema)]
struct Defect {
    /// The number of the rule in its chain, where it is one rule's.
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
    /// The chain of the rule that decides, where the rule leads to another one.
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

/// What becomes of connections.
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
    /// What becomes of them, in the order of rules.
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
    /// The number of the rule in its chain, where it is one rule's.
    rule: Option<usize>,
    /// How much of all new connections it is about, where that is known.
    share: Option<Share>,
    /// What is not known, and why.
    message: &'a str,
}

impl<'a> Unknown<'a> {
    fn of(own: &'a cascade::Unknown) -> Self {
        Self { rule: Some(own.rule).filter(|rule| *rule > 0), share: own.share.map(Share::of), message: &own.why }
    }
}

/// What came of real packets.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Sample<'a> {
    /// Who sent, as scenarios name it: `pod/client`.
    from: &'a str,
    /// Where to.
    to: std::net::SocketAddr,
    /// How many flows were sent.
    sent: u64,
    /// How many of them had to be sent again, because the kernel had dropped them by itself.
    repeated: u64,
    /// The flows that arrived, by endpoint.
    arrivals: Vec<Arrival<'a>>,
    /// The probability that right shares look at least this wrong; `null` where nothing arrived.
    p_value: Option<f64>,
    /// How often the test fails although shares are right.
    false_alarm_rate: Option<f64>,
    /// What was shown, in words.
    shown: &'a [String],
    /// What is wrong, in words; nothing where all is as the rules have it.
    faults: &'a [String],
}

impl<'a> Sample<'a> {
    fn of(sample: &'a sample::Sample) -> Self {
        let cells = sample.fit.iter().flat_map(|fit| &fit.cells).map(Some).chain(std::iter::repeat(None));
        let arrivals = sample.arrivals.iter().zip(cells).map(|(own, cell)| Arrival {
            endpoint: &own.endpoint,
            arrived: own.arrived,
            counted: own.counted,
            share: Share::of(own.share),
            interval: cell.map(|cell| [cell.interval.low, cell.interval.high]),
        });
        Self {
            from: &sample.from,
            to: sample.to,
            sent: sample.sent,
            repeated: sample.repeated,
            arrivals: arrivals.collect(),
            p_value: sample.fit.as_ref().map(|fit| fit.p_value),
            false_alarm_rate: sample.fit.as_ref().map(|fit| fit.rate.get()),
            shown: &sample.shown,
            faults: &sample.faults,
        }
    }
}

/// What arrived at one endpoint, or nowhere.
#[derive(Serialize, JsonSchema)]
struct Arrival<'a> {
    /// The endpoint.
    endpoint: &'a str,
    /// Flows that arrived there.
    arrived: u64,
    /// Flows that rules translated to it, by their own counters, where they have any.
    counted: Option<u64>,
    /// What should arrive.
    share: Share,
    /// The shares that fit the count: those of all endpoints together, at the false-alarm rate.
    interval: Option<[f64; 2]>,
}
