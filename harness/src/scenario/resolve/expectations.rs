//! Expectations of probes.

use std::net::IpAddr;

use svclab_rules::cluster::{Family, Protocol};

use super::during::bounds;
use super::findings::Findings;
use super::links;
use super::lookup::Scene;
use super::probes::ResolvedProbe;
use super::promised::promised;
use crate::input::did_you_mean;
use crate::scenario::model::{
    Balance, DropPlace, Expectation, ExpectedOutcome, Flows, RejectKind, ReplyExpectation, SourceExpectation, Target,
    TooBig, pod_label, short_name,
};
use crate::scenario::schema::{
    RawBalance, RawDropped, RawExpect, RawRejectKind, RawRejected, RawTooBig, RawTooBigMessage,
};
use crate::stats::{flows_to_distinguish, flows_to_meet_all};
use crate::text::UNDERLAY;
use crate::yaml::{At, Place};

/// The balance that the Service API promises.
const PROMISED: &str = "promised";

/// The balance that gives every ready endpoint the same share.
const EVEN: &str = "even";

/// The balance in which every expected destination gets a flow.
const ALL: &str = "all";

/// The destination of the previous probe.
const SAME: &str = "same-as-before";

/// The address that the probe was sent to.
const VIP: &str = "vip";

/// The packets that an expectation applies to.
#[derive(Debug, Clone, Copy)]
struct ProbeKind {
    family: Family,
    /// `None` if the probe itself is invalid.
    protocol: Option<Protocol>,
    /// The original destination.
    to: Option<IpAddr>,
}

/// Resolves the expectation of a probe of one family.
pub(crate) fn expectation(
    raw: &RawExpect,
    at: At<'_>,
    resolved: &ResolvedProbe,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Expectation {
    let family = Family::of(resolved.probe.to.address);
    let kind = ProbeKind { family, protocol: Some(resolved.probe.protocol), to: Some(resolved.probe.to.address) };
    contradictions(raw, at, findings);
    if raw.lost.is_none() {
        links::check_certain(scene.now.1, at, findings);
    }
    many_flows(raw, at, resolved.probe.flows, findings);
    let mut outcome = outcome(raw, at, kind, scene, findings);
    let balance = match &raw.balance {
        Some(RawBalance::Word(word)) if word == PROMISED => {
            promised(&resolved.probe, at.field("balance"), scene, findings)
        }
        _ => balance(raw, at, kind, scene, findings),
    };
    if balance.is_some() && outcome.is_none() {
        outcome = Some(ExpectedOutcome::Delivered(match &balance {
            Some(Balance::Shares(shares)) => shares.iter().map(|(target, _)| target.clone()).collect(),
            _ => endpoints(resolved, family, at, scene, findings),
        }));
    }
    enough_for_affinity(outcome.as_ref(), at, resolved.probe.flows, findings);
    enough_for_all(balance.as_ref(), outcome.as_ref(), at, resolved.probe.flows, findings);
    Expectation {
        outcome,
        source: raw.source.as_deref().and_then(|text| source(text, at.field("source"), findings)),
        reply: raw.reply.as_deref().and_then(|text| reply(text, at.field("reply"), findings)),
        balance,
        affinity: raw.affinity,
        fragments: raw.fragments,
        lost: raw.lost.as_ref().map(|raw| bounds(raw, at.field("lost"), findings)),
    }
}

/// Reports errors in an expectation whose probe is invalid, so that its destination is unknown.
pub(crate) fn words(raw: &RawExpect, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) {
    let kind = ProbeKind { family: Family::Ipv4, protocol: None, to: None };
    contradictions(raw, at, findings);
    outcome(raw, at, kind, scene, findings);
    balance(raw, at, kind, scene, findings);
    raw.source.as_deref().map(|text| source(text, at.field("source"), findings));
    raw.reply.as_deref().map(|text| reply(text, at.field("reply"), findings));
}

fn contradictions(raw: &RawExpect, at: At<'_>, findings: &mut Findings) {
    let outcomes = ["delivered", "rejected", "dropped", "fails", "tooBig"];
    let given: Vec<&str> = outcomes.into_iter().filter(|outcome| at.has(outcome)).collect();
    if let [first, second, ..] = given.as_slice() {
        let message = format!("`{first}` and `{second}` are mutually exclusive");
        findings.wrong(at.field(second).key(), message, "Keep one of them.");
    }
    let denied = [
        ("rejected", raw.rejected == Some(RawRejected::Any(false))),
        ("dropped", raw.dropped == Some(RawDropped::Any(false))),
        ("fails", raw.fails == Some(false)),
        ("tooBig", raw.too_big == Some(RawTooBig::Any(false))),
    ];
    for (outcome, is_denied) in denied {
        if is_denied {
            let message = format!("`{outcome}: false` is not an expectation");
            findings.wrong(at.field(outcome), message, "Use `delivered: pod/NAME:PORT` instead.");
        }
    }
    let is_counted = matches!(raw.rejected, Some(RawRejected::Flows(_)));
    for field in RawExpect::OF_DURING.into_iter().filter(|field| at.has(field)) {
        let message = match RawExpect::OF_PROBE.contains(&field) {
            true if is_counted && field == "rejected" => {
                format!("a number of {field} flows is only valid with `during`")
            }
            true => continue,
            false => format!("`{field}` is only valid with `during`"),
        };
        let help = "Use `delivered`, `rejected: true` or `dropped`, or a step with `during`.";
        findings.wrong(at.field(field).key(), message, help);
    }
    let nothing_arrives =
        raw.dropped.is_some() || raw.rejected.is_some() || raw.fails.is_some() || raw.too_big.is_some();
    for field in ["source", "fragments", "balance", "affinity", "lost"]
        .into_iter()
        .filter(|field| nothing_arrives && at.has(field))
    {
        let message = format!("`{field}` applies to delivered packets, but no delivery is expected");
        findings.wrong(at.field(field).key(), message, "Omit it, or expect `delivered`.");
    }
    let is_even = matches!(&raw.balance, Some(RawBalance::Word(word)) if word == EVEN);
    if raw.affinity == Some(true) && is_even {
        let message = "one client's flows cannot both stay on one endpoint and be balanced";
        findings.wrong(at.field("affinity").key(), message, "Keep `affinity: true` or `balance: even`.");
    }
    if !RawExpect::OF_PROBE.iter().chain(&RawExpect::OF_DURING).any(|field| at.has(field)) {
        findings.missing(at, "`expect` is empty", "Add one of `delivered`, `rejected` or `dropped`.");
    }
}

/// Checks fields that can only be judged for one flow, or only for many.
fn many_flows(raw: &RawExpect, at: At<'_>, flows: Flows, findings: &mut Findings) {
    if flows == Flows::Exactly(1) {
        for field in ["balance", "affinity", "lost"].into_iter().filter(|field| at.has(field)) {
            let message = format!("`{field}` needs more than one flow");
            let help = match field {
                "affinity" | "lost" => "Add a number of flows to the probe, for example `flows: 100`.",
                _ => "Add `flows: auto` or a number of flows to the probe.",
            };
            findings.wrong(at.field(field).key(), message, help);
        }
        return;
    }
    if flows == Flows::Auto && raw.balance.is_none() {
        let message = "`flows: auto` needs an expected `balance`";
        findings.wrong(at, message, "Set a number of flows, or expect a `balance`.");
    }
    for field in ["reply", "rejected", "dropped", "tooBig", "fragments"].into_iter().filter(|field| at.has(field)) {
        let message = format!("`{field}` is checked for single flows only");
        let help = match field {
            "rejected" | "dropped" => "Use `fails: true`, or omit `flows`.",
            _ => "Move it to a test without `flows`.",
        };
        findings.wrong(at.field(field).key(), message, help);
    }
    if raw.delivered.as_ref().is_some_and(|listed| listed.0 == [SAME]) {
        let message = format!("`{SAME}` is checked for single flows only");
        findings.wrong(at.field("delivered"), message, "Expect `affinity: true`, or omit `flows`.");
    }
}

/// Checks that there are enough flows to prove affinity: a few can all reach one endpoint by chance.
fn enough_for_affinity(outcome: Option<&ExpectedOutcome>, at: At<'_>, flows: Flows, findings: &mut Findings) {
    let endpoints = match outcome {
        Some(ExpectedOutcome::Delivered(targets)) => targets.len(),
        _ => 0,
    };
    let needed = flows_to_distinguish(endpoints);
    if let Flows::Exactly(flows @ 2..) = flows
        && at.has("affinity")
        && flows < needed
    {
        let message = format!("{flows} flows can all reach one endpoint by chance, so they do not prove affinity");
        findings.wrong(at.field("affinity").key(), message, format!("Set `flows: {needed}` or more in the probe."));
    }
}

/// Checks that there are enough flows for every destination: with few, one may get none by chance.
fn enough_for_all(
    balance: Option<&Balance>,
    outcome: Option<&ExpectedOutcome>,
    at: At<'_>,
    flows: Flows,
    findings: &mut Findings,
) {
    let (Some(Balance::All), Some(ExpectedOutcome::Delivered(targets))) = (balance, outcome) else { return };
    let needed = flows_to_meet_all(targets.len());
    if let Flows::Exactly(flows @ 2..) = flows
        && flows < needed
    {
        let message = format!("with {flows} flows, one of {} destinations may get none by chance", targets.len());
        findings.wrong(at.field("balance").key(), message, format!("Set `flows: auto`, or at least {needed}."));
    }
}

fn outcome(
    raw: &RawExpect,
    at: At<'_>,
    kind: ProbeKind,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Option<ExpectedOutcome> {
    if let Some(listed) = &raw.delivered {
        let at = at.field("delivered");
        if listed.0 == [SAME] {
            return Some(ExpectedOutcome::SameAsBefore);
        }
        let of = |(index, text): (usize, &String)| targets(text, kind, at.item(index), scene, findings);
        let known = listed.0.iter().enumerate().flat_map(of).collect::<Vec<Target>>();
        if known.is_empty() && findings.errors.is_empty() {
            let family = kind.family;
            let message =
                format!("the probe is sent over {family}, but none of these destinations has an {family} address");
            findings.wrong(at, message, "Set `family` in the probe, or add an address of this family.");
        }
        return Some(ExpectedOutcome::Delivered(known));
    }
    if let Some(raw) = &raw.too_big {
        return Some(ExpectedOutcome::TooBig(too_big(raw, at.field("tooBig"), kind, scene, findings)));
    }
    match raw.rejected {
        Some(RawRejected::Any(_) | RawRejected::How(RawRejectKind::Any)) => {
            return Some(ExpectedOutcome::Rejected(RejectKind::Any));
        }
        Some(RawRejected::How(kind)) => {
            let kind = match kind {
                RawRejectKind::TcpReset => RejectKind::TcpReset,
                RawRejectKind::SctpAbort => RejectKind::SctpAbort,
                RawRejectKind::IcmpPortUnreachable => RejectKind::PortUnreachable,
                RawRejectKind::IcmpOtherUnreachable => RejectKind::OtherUnreachable,
                RawRejectKind::Any => RejectKind::Any,
            };
            return Some(ExpectedOutcome::Rejected(kind));
        }
        // This has been reported already.
        Some(RawRejected::Flows(_)) => return None,
        None => {}
    }
    if raw.fails == Some(true) {
        return Some(ExpectedOutcome::Fails);
    }
    let dropped = match raw.dropped.as_ref()? {
        RawDropped::Any(is_dropped) => is_dropped.then_some(DropPlace::InCluster),
        RawDropped::At(place) => drop_place(place, at.field("dropped"), scene, findings),
    };
    dropped.map(ExpectedOutcome::Dropped)
}

/// Resolves the expected error for a packet that is too big.
fn too_big(raw: &RawTooBig, at: At<'_>, kind: ProbeKind, scene: &Scene<'_, '_>, findings: &mut Findings) -> TooBig {
    let RawTooBig::Message(RawTooBigMessage { mtu, from }) = raw else { return TooBig::default() };
    if mtu.is_none() && from.is_none() {
        findings.missing(at, "`tooBig` says neither `mtu` nor `from`", "Add one of them, or write `tooBig: true`.");
    }
    let from = from.as_ref().and_then(|text| {
        let at = at.field("from");
        let addresses: Vec<IpAddr> = match text.split_once('/') {
            Some(("node", name)) => scene.node(name, at, findings)?.addresses().collect(),
            None if text == VIP => kind.to.into_iter().collect(),
            _ => match text.parse() {
                Ok(address) => vec![address],
                Err(_) => {
                    let message = format!("`{text}` is not a valid sender of ICMP errors");
                    findings.wrong(at, message, "Use `node/NAME`, `vip` or an address.");
                    return None;
                }
            },
        };
        Some((text.clone(), addresses))
    });
    TooBig { mtu: *mtu, from }
}

/// Resolves where a packet must be dropped.
fn drop_place(text: &str, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Option<DropPlace> {
    match text.split_once('/') {
        None if text == UNDERLAY => Some(DropPlace::Underlay),
        Some(("node", name)) => scene.node(name, at, findings).map(|node| DropPlace::At(format!("node/{}", node.name))),
        Some(("pod", name)) => scene.one_pod(name, at, findings).map(|pod| DropPlace::At(pod_label(&pod.name))),
        _ => {
            let help = "Use `true` for any node, `node/NAME`, `pod/NAME` or `underlay`.";
            findings.wrong(at, format!("`{text}` is not a place where a packet can be dropped"), help);
            None
        }
    }
}

/// Returns the destinations with a name that such packets can be delivered to.
fn targets(text: &str, kind: ProbeKind, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Vec<Target> {
    let targets = scene.targets(text, kind.family, at, findings);
    for target in &targets {
        if let Some(protocol) = kind.protocol {
            scene.takes(target, protocol, at, findings);
        }
    }
    targets
}

fn source(text: &str, at: At<'_>, findings: &mut Findings) -> Option<SourceExpectation> {
    match text {
        "preserved" => Some(SourceExpectation::Preserved),
        "masqueraded" => Some(SourceExpectation::Masqueraded),
        address => word_or_address(address, ["preserved", "masqueraded"], at, findings).map(SourceExpectation::Address),
    }
}

fn reply(text: &str, at: At<'_>, findings: &mut Findings) -> Option<ReplyExpectation> {
    match text {
        "from-vip" => Some(ReplyExpectation::FromVip),
        "none" => Some(ReplyExpectation::Nothing),
        address => word_or_address(address, ["from-vip", "none"], at, findings).map(ReplyExpectation::From),
    }
}

/// Parses an address where two keywords are also allowed.
fn word_or_address(text: &str, words: [&str; 2], at: At<'_>, findings: &mut Findings) -> Option<IpAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        let choose = || format!("Use `{}`, `{}` or an address.", words[0], words[1]);
        let help = did_you_mean(text, &words).unwrap_or_else(choose);
        findings.wrong(at, format!("unknown value `{text}`"), help);
    }
    address
}

fn balance(
    raw: &RawExpect,
    at: At<'_>,
    kind: ProbeKind,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Option<Balance> {
    let at = at.field("balance");
    match raw.balance.as_ref()? {
        RawBalance::Word(word) if word == EVEN => Some(Balance::Even),
        RawBalance::Word(word) if word == ALL => Some(Balance::All),
        // There is no promise for an invalid probe.
        RawBalance::Word(word) if word == PROMISED => None,
        RawBalance::Word(word) => {
            let help = "Use `even`, `promised`, `all`, or a map of destinations to shares.";
            findings.wrong(at, format!("unknown balance `{word}`"), help);
            None
        }
        RawBalance::Shares(shares) => {
            let mut known = Vec::new();
            for (name, share) in shares {
                let at = at.field(name);
                if !(0.0..=1.0).contains(share) {
                    findings.wrong(at, format!("invalid share {share}"), "Use a number from 0 to 1.");
                }
                let targets = targets(name, kind, at, scene, findings);
                let each = *share / targets.len().max(1) as f64;
                known.extend(targets.into_iter().map(|target| (target, each)));
            }
            // An empty sum is -0.
            let sum: f64 = shares.values().sum::<f64>() + 0.0;
            if (sum - 1.0).abs() > 1e-6 {
                let message = format!("the shares add up to {sum}");
                findings.wrong(at.key(), message, "Make the shares add up to 1.");
            }
            Some(Balance::Shares(known))
        }
    }
}

/// Returns the ready endpoints of the Service port that a probe is sent to: among these an even balance is expected.
fn endpoints(
    resolved: &ResolvedProbe,
    family: Family,
    at: At<'_>,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Vec<Target> {
    let Some((service, port)) = &resolved.service else {
        let error = at.field("balance").error("the destinations to balance over are unknown");
        findings.add(error.help("List them in `delivered: [...]`, or give each a share."));
        return Vec::new();
    };
    let mut targets: Vec<Target> = Vec::new();
    for (endpoint, reached) in scene.now.1.endpoints_of(service, port, family).filter(|(one, _)| one.ready) {
        let label = match &endpoint.pod {
            Some(pod) => format!("pod/{}:{}", short_name(pod), reached.port()),
            None => reached.to_string(),
        };
        let target = Target { label, address: reached.ip(), port: Some(reached.port()) };
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    if targets.is_empty() {
        let message = format!("service `{}` has no ready {family} endpoint to balance over", service.name);
        findings.wrong(at.field("balance"), message, "Add endpoints, or expect `rejected` or `dropped`.");
    }
    targets
}
