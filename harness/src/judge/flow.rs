//! Judging one flow.

use std::net::SocketAddr;

use super::words::{
    expected_reply, expected_source, fragments_words, observed_outcome, outcome_words, rejection_words,
};
use super::{Context, Field, Findings, check_source};
use crate::observation::{Delivery, FlowObservation, ObservedOutcome};
use crate::scenario::{
    DropPlace, Expectation, ExpectedOutcome, Probe, RejectKind, ReplyExpectation, SourceExpectation, TooBig,
};
use crate::text::is_in_cluster;
use crate::wire::Rejection;

/// Judges all parts. Source and reply are judged only if the outcome is as expected; otherwise they are consequences of it.
pub(super) fn judge(
    probe: &Probe,
    expectation: &Expectation,
    seen: &FlowObservation,
    context: &Context,
    findings: &mut Findings,
) {
    if let ObservedOutcome::Duplicated(_) = &seen.outcome {
        let reason = "a flow must be delivered exactly once";
        findings.differ(Field::Flows, "one delivery", observed_outcome(&seen.outcome), reason);
    } else if let Some(expected) = &expectation.outcome
        && let Err(reason) = check_outcome(expected, &seen.outcome, context.before)
    {
        findings.differ(Field::Outcome, outcome_words(expected), observed_outcome(&seen.outcome), reason);
    }
    if let Some(rejection) = &seen.contradiction {
        let reason = "the packet was delivered, but its sender also received a rejection";
        findings.differ(Field::Outcome, "no rejection", rejection_words(rejection), reason);
    }
    if findings.differences.is_empty() {
        if let Some(expected) = expectation.fragments {
            judge_fragments(expected, seen, findings);
        }
        if let Some(expected) = expectation.source {
            judge_source(expected, seen, context, findings);
        }
        if let Some(expected) = expectation.reply {
            judge_reply(expected, probe, seen, findings);
        }
    }
    for (field, wanted) in
        [(Field::Balance, expectation.balance.is_some()), (Field::Affinity, expectation.affinity.is_some())]
    {
        if wanted {
            findings.differ(field, "many flows", "one flow", "one flow has no distribution: set `flows: auto`");
        }
    }
}

fn check_outcome(expected: &ExpectedOutcome, seen: &ObservedOutcome, before: Option<SocketAddr>) -> Result<(), String> {
    match (expected, seen) {
        (ExpectedOutcome::Delivered(targets), ObservedOutcome::Delivered(delivery)) => {
            if targets.iter().any(|target| super::words::is_at(target, delivery.destination)) {
                return Ok(());
            }
            let address = targets.iter().any(|target| target.address == delivery.destination.ip());
            Err(if address {
                "it was delivered to the right place, but to another port"
            } else {
                "it was delivered elsewhere"
            }
            .to_owned())
        }
        (ExpectedOutcome::SameAsBefore, ObservedOutcome::Delivered(delivery)) => match before {
            Some(before) if before == delivery.destination => Ok(()),
            Some(before) => Err(format!("the previous probe was delivered to {before}")),
            None => Err("the previous probe was not delivered".to_owned()),
        },
        (ExpectedOutcome::TooBig(expected), ObservedOutcome::Rejected(rejection))
            if matches!(rejection.kind, RejectKind::TooBig { .. }) =>
        {
            check_too_big(expected, rejection)
        }
        (
            ExpectedOutcome::Rejected(_),
            ObservedOutcome::Rejected(Rejection { kind: RejectKind::TooBig { .. }, .. }),
        ) => Err("no one rejected it: it is larger than the MTU of a link".to_owned()),
        (ExpectedOutcome::Rejected(kind), ObservedOutcome::Rejected(Rejection { kind: seen, .. })) => {
            let held = *kind == RejectKind::Any || kind == seen;
            if held { Ok(()) } else { Err("it was rejected in another way".to_owned()) }
        }
        (ExpectedOutcome::Dropped(place), ObservedOutcome::Dropped { at, .. }) => check_place(place, at),
        (ExpectedOutcome::Fails, ObservedOutcome::Rejected(_) | ObservedOutcome::Dropped { .. }) => Ok(()),
        (_, ObservedOutcome::Delivered(_)) => Err("it should not be delivered".to_owned()),
        (ExpectedOutcome::Dropped(_), ObservedOutcome::Rejected(_)) => {
            Err("the sender should not receive a rejection".to_owned())
        }
        (_, ObservedOutcome::Rejected(_)) => Err("it was rejected instead".to_owned()),
        (_, ObservedOutcome::Dropped { .. }) => Err("not delivered, and the sender received no error".to_owned()),
        (_, ObservedOutcome::Duplicated(_)) => Err("it was delivered more than once".to_owned()),
    }
}

fn check_too_big(expected: &TooBig, seen: &Rejection) -> Result<(), String> {
    let RejectKind::TooBig { mtu } = seen.kind else { return Err("it was rejected in another way".to_owned()) };
    if expected.mtu.is_some_and(|expected| expected != mtu) {
        return Err(format!("the link that is too small for it has an MTU of {mtu}"));
    }
    match &expected.from {
        Some((_, addresses)) if !addresses.contains(&seen.by) => Err(format!("the message comes from {}", seen.by)),
        _ => Ok(()),
    }
}

fn check_place(expected: &DropPlace, at: &str) -> Result<(), String> {
    let held = match expected {
        DropPlace::InCluster => is_in_cluster(at),
        DropPlace::At(place) => place == at,
        DropPlace::Underlay => !is_in_cluster(at),
    };
    if held {
        return Ok(());
    }
    Err(match (expected, is_in_cluster(at)) {
        (DropPlace::Underlay, _) => "it never left the cluster",
        (_, true) => "it was dropped elsewhere",
        (_, false) => "no node dropped it: it left the cluster, where no host has its address",
    }
    .to_owned())
}

fn judge_fragments(expected: u16, seen: &FlowObservation, findings: &mut Findings) {
    let words = fragments_words(expected);
    match &seen.outcome {
        ObservedOutcome::Delivered(Delivery { fragments: Some(fragments), .. }) if *fragments == expected => {}
        ObservedOutcome::Delivered(Delivery { fragments: Some(fragments), .. }) => {
            let reason = "it was fragmented differently";
            findings.differ(Field::Fragments, words, fragments_words(*fragments), reason);
        }
        ObservedOutcome::Delivered(Delivery { fragments: None, at, .. }) => {
            let reason = "a node's kernel reassembles fragments before svclab sees them";
            findings.differ(Field::Fragments, words, format!("received by {at}"), reason);
        }
        _ => findings.differ(Field::Fragments, words, "nothing", "it was not delivered"),
    }
}

fn judge_source(expected: SourceExpectation, seen: &FlowObservation, context: &Context, findings: &mut Findings) {
    let sender = [seen.source.ip()];
    let words = expected_source(expected, &sender);
    match &seen.outcome {
        // A node's own packet may be masqueraded to the address that it already has.
        ObservedOutcome::Delivered(Delivery { source, .. })
            if expected == SourceExpectation::Masqueraded
                && source.ip() == seen.source.ip()
                && source.port() != seen.source.port()
                && context.node_of(source.ip()).is_some() => {}
        ObservedOutcome::Delivered(Delivery { source, .. }) => {
            if let Err(reason) = check_source(expected, source.ip(), &sender, context) {
                findings.differ(Field::Source, words, source.ip().to_string(), reason);
            }
        }
        other => findings.differ(Field::Source, words, observed_outcome(other), "no receiver saw a source"),
    }
}

fn judge_reply(expected: ReplyExpectation, probe: &Probe, seen: &FlowObservation, findings: &mut Findings) {
    let vip = SocketAddr::new(probe.to.address, probe.to.port);
    let held = match (expected, seen.reply) {
        (ReplyExpectation::FromVip, Some(reply)) => reply == vip,
        (ReplyExpectation::From(address), Some(reply)) => reply.ip() == address,
        (ReplyExpectation::Nothing, reply) => reply.is_none(),
        (_, None) => false,
    };
    if held {
        return;
    }
    let observed = seen.reply.map_or("no reply".to_owned(), |reply| format!("a reply from {reply}"));
    let reason = match (seen.reply, &seen.outcome) {
        (None, ObservedOutcome::Delivered(_)) => "the packet was delivered, but the reply did not arrive",
        (None, _) => "nothing was delivered, so there was no reply",
        (Some(reply), ObservedOutcome::Delivered(delivery)) if reply == delivery.destination && reply != vip => {
            "the reply was not translated back: its source is the endpoint's own address"
        }
        (Some(_), _) if expected == ReplyExpectation::Nothing => "there should be no reply",
        (Some(_), _) => "the reply has another source address",
    };
    findings.differ(Field::Reply, expected_reply(expected, vip), observed, reason);
}
