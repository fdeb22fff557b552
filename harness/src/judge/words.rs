//! Expectations and observations in words.

use std::net::{IpAddr, SocketAddr};

use super::Field;
use super::during::{bounds_words, stream_words};
use crate::observation::{Delivery, Observation, ObservedOutcome, Tally};
use crate::scenario::{
    Balance, DropPlace, Expectation, ExpectedOutcome, Probe, RejectKind, ReplyExpectation, SourceExpectation, Target,
    TooBig,
};
use crate::stats::percent;
use crate::text::{UNDERLAY, drop_words, grouped, list};
use crate::wire::Rejection;

/// The number of names in a list before the rest is only counted.
pub(super) const MAX_LISTED: usize = 6;

/// Returns every part of an expectation in words, for a probe from these addresses.
pub(crate) fn expected_parts(probe: &Probe, expectation: &Expectation, sender: &[IpAddr]) -> Vec<(Field, String)> {
    let vip = SocketAddr::new(probe.to.address, probe.to.port);
    let targets: &[Target] = match &expectation.outcome {
        Some(ExpectedOutcome::Delivered(targets)) => targets,
        _ => &[],
    };
    let outcome = expectation.outcome.as_ref().map(|outcome| (Field::Outcome, outcome_words(outcome)));
    let fragments = expectation.fragments.map(|fragments| (Field::Fragments, fragments_words(fragments)));
    let source = expectation.source.map(|source| (Field::Source, expected_source(source, sender)));
    let reply = expectation.reply.map(|reply| (Field::Reply, expected_reply(reply, vip)));
    let balance = expectation.balance.as_ref().map(|balance| (Field::Balance, balance_words(balance, targets)));
    let affinity = expectation.affinity.map(|affinity| {
        (Field::Affinity, if affinity { "all flows at one endpoint" } else { "flows at several endpoints" }.to_owned())
    });
    let lost = expectation.lost.map(|bounds| (Field::Lost, bounds_words(bounds)));
    [outcome, fragments, lost, source, reply, balance, affinity].into_iter().flatten().collect()
}

/// An observation in one line: `delivered to pod/nginx at 10.244.2.2:80 from 10.244.1.3:37328, reply from 10.96.34.82:80`.
pub(crate) fn observed_words(observation: &Observation) -> String {
    match observation {
        Observation::Flow(seen) => {
            let outcome = observed_outcome(&seen.outcome);
            match seen.reply {
                Some(reply) => format!("{outcome}, reply from {reply}"),
                None => outcome,
            }
        }
        Observation::Tally(tally) => tally_words(tally),
        Observation::Stream(stream) => stream_words(stream),
    }
}

fn tally_words(tally: &Tally) -> String {
    let delivered: u64 = tally.delivered.values().sum();
    let mut words = format!("{} of {} flows delivered to", grouped(delivered), grouped(tally.sent));
    words += &match tally.delivered.len() {
        1 => " one endpoint".to_owned(),
        several => format!(" {several} endpoints"),
    };
    let rest = [
        (tally.lost, "lost"),
        (tally.duplicated, "duplicated"),
        (tally.unattributed, "unattributed"),
        (tally.resent, "resent"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        words += &format!(", {} {what}", grouped(count));
    }
    words
}

/// The outcome of a packet, in words.
pub(super) fn outcome_words(outcome: &ExpectedOutcome) -> String {
    match outcome {
        ExpectedOutcome::Delivered(targets) => {
            let labels: Vec<String> = targets.iter().map(|target| target.label.clone()).collect();
            match labels.as_slice() {
                [] => "delivered".to_owned(),
                [one] => format!("delivered to {one}"),
                _ => format!("delivered to one of {}", list(&labels, MAX_LISTED)),
            }
        }
        ExpectedOutcome::Rejected(kind) => reject_words(*kind).to_owned(),
        ExpectedOutcome::TooBig(TooBig { mtu, from }) => {
            let mtu = mtu.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
            let from = from.as_ref().map(|(from, _)| format!(", from {from}")).unwrap_or_default();
            format!("too big: ICMP fragmentation needed, or ICMPv6 packet too big{mtu}{from}")
        }
        ExpectedOutcome::SameAsBefore => "delivered to the same destination as the previous probe".to_owned(),
        ExpectedOutcome::Fails => "not delivered".to_owned(),
        ExpectedOutcome::Dropped(DropPlace::InCluster) => "dropped on a node".to_owned(),
        ExpectedOutcome::Dropped(DropPlace::At(place)) => drop_words(place),
        ExpectedOutcome::Dropped(DropPlace::Underlay) => drop_words(UNDERLAY),
    }
}

/// A number of fragments in words.
pub(super) fn fragments_words(fragments: u16) -> String {
    if fragments == 1 { "in one piece".to_owned() } else { format!("in {fragments} fragments") }
}

/// A rejection in words.
pub(crate) fn reject_words(kind: RejectKind) -> &'static str {
    match kind {
        RejectKind::Any => "rejected",
        RejectKind::TcpReset => "rejected by TCP RST",
        RejectKind::SctpAbort => "rejected by SCTP ABORT",
        RejectKind::PortUnreachable => "rejected by ICMP port unreachable",
        RejectKind::OtherUnreachable => "rejected by ICMP unreachable (not port unreachable)",
        RejectKind::TooBig { .. } => "too big for a link on its path",
        RejectKind::Unsent => "not sent by the sender's kernel",
    }
}

pub(super) fn observed_outcome(outcome: &ObservedOutcome) -> String {
    match outcome {
        ObservedOutcome::Delivered(delivery) => delivery_words(delivery),
        ObservedOutcome::Duplicated(deliveries) => {
            let words: Vec<String> = deliveries.iter().map(delivery_words).collect();
            list(words, MAX_LISTED)
        }
        ObservedOutcome::Rejected(rejection) => rejection_words(rejection),
        ObservedOutcome::Dropped { at, .. } => drop_words(at),
    }
}

pub(super) fn rejection_words(Rejection { what, by, .. }: &Rejection) -> String {
    format!("rejected by {by}: {what}")
}

fn delivery_words(delivery: &Delivery) -> String {
    format!("delivered to {} at {} from {}", delivery.at, delivery.destination, delivery.source)
}

pub(super) fn expected_source(expected: SourceExpectation, sender: &[IpAddr]) -> String {
    match (expected, sender) {
        (SourceExpectation::Preserved, [own]) => format!("{own}, the sender's own"),
        (SourceExpectation::Preserved, _) => "the sender's own".to_owned(),
        (SourceExpectation::Masqueraded, _) => "a node's address".to_owned(),
        (SourceExpectation::Address(address), _) => address.to_string(),
    }
}

pub(super) fn expected_reply(expected: ReplyExpectation, vip: SocketAddr) -> String {
    match expected {
        ReplyExpectation::FromVip => format!("a reply from {vip}"),
        other => expected_reply_alone(other),
    }
}

pub(super) fn expected_reply_alone(expected: ReplyExpectation) -> String {
    match expected {
        ReplyExpectation::FromVip => "a reply from the probed address".to_owned(),
        ReplyExpectation::From(address) => format!("a reply from {address}"),
        ReplyExpectation::Nothing => "no reply".to_owned(),
    }
}

pub(super) fn balance_words(balance: &Balance, targets: &[Target]) -> String {
    match balance {
        Balance::Even => match targets.len() {
            0 | 1 => "even".to_owned(),
            count => format!("{} for each of {count} endpoints", percent(1.0 / count as f64)),
        },
        Balance::All => match targets.len() {
            0 | 1 => "some flows".to_owned(),
            count => format!("some flows for each of {count} endpoints"),
        },
        Balance::Shares(shares) => {
            let words: Vec<String> =
                shares.iter().map(|(target, share)| format!("{} {}", target.label, percent(*share))).collect();
            list(words, MAX_LISTED)
        }
    }
}

/// Counts as a list: `pod/a 13,700, pod/b 27,500`.
pub(super) fn counts_words(names: &[String], counts: &[u64]) -> String {
    let words: Vec<String> =
        names.iter().zip(counts).map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    list(words, MAX_LISTED)
}

/// Whether a target is at an address and port.
pub(super) fn is_at(target: &Target, at: SocketAddr) -> bool {
    target.address == at.ip() && target.port.is_none_or(|port| port == at.port())
}

/// The scenario's name for an address.
pub(super) fn label(targets: &[Target], at: SocketAddr) -> String {
    targets.iter().find(|target| is_at(target, at)).map_or_else(|| at.to_string(), |target| target.label.clone())
}
