//! A prediction becomes an explanation.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::promise::Promise;
use svclab_rules::walk::{Assumptions, Direction, Hook, Packet, Share, State, Tracking};

use super::call_tree::{CallTree, visits};
use super::model::{Because, Change, FirstPacket, Kernel, OutcomeKind, Part, Parting, Promised, Stop, Way};
use crate::observation::FlowObservation;
use crate::predict::{Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Stage};
use crate::scenario::Probe;
use crate::sources::{FlowOutcome, promise_words};
use crate::trace::{Comparison, Difference, Passage, Traced, TracedWhat};

/// The packet that is explained.
pub(super) fn packet(probe: &Probe, source: Option<SocketAddr>) -> FirstPacket {
    FirstPacket {
        from: probe.from.to_string(),
        to: probe.to.label.clone(),
        protocol: probe.protocol.as_str(),
        source,
        destination: (probe.to.address, probe.to.port).into(),
    }
}

/// What the kernel did, beside what is predicted.
pub(super) fn kernel(
    flow: &FlowObservation,
    traced: &[Traced],
    branches: Option<&[PredictedBranch]>,
    nearest: Option<&(usize, Comparison)>,
) -> Kernel {
    let seen = FlowOutcome::observed(flow);
    let is_it =
        |branch: &PredictedBranch| FlowOutcome::predicted(&branch.outcome).is_some_and(|one| one.is_like(&seen));
    let parting = |difference: &Difference| Parting {
        place: difference.place.clone(),
        packet: match difference.passage {
            Passage::There => "the packet",
            Passage::Back => "the answer",
        },
        predicted: difference.predicted.clone(),
        kernel: difference.kernel.clone(),
    };
    Kernel {
        observed: seen.to_string(),
        predicted: branches.map(|branches| branches.iter().any(is_it)),
        way: nearest.map(|(way, _)| way + 1),
        alike: nearest.map_or(0, |(_, comparison)| comparison.alike),
        met: traced.iter().filter(|one| matches!(one.what, TracedWhat::Rule(_))).count(),
        difference: nearest.and_then(|(_, comparison)| comparison.difference.as_ref()).map(parting),
    }
}

/// A promise with its reasons.
pub(super) fn promised(promise: &Promise) -> Promised {
    let because =
        |clause: &svclab_rules::promise::Clause| Because { sentence: clause.sentence(), citation: clause.citation() };
    Promised {
        outcome: promise_words(promise),
        service: promise.service.clone(),
        because: promise.because.iter().map(because).collect(),
        known_bug: promise.known_bug.map(|known_bug| known_bug.to_string()),
    }
}

/// The name of an address's family.
pub(super) fn family(address: IpAddr) -> &'static str {
    match Family::of(address) {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// The most rules shown for all outcomes together, besides those of the chosen one. Where chance decides at one rule after the other, there
/// are many thousand outcomes with many rules each.
const MOST_RULES: usize = 1 << 15;

/// The outcomes of a prediction, one of them with the rules that the kernel traced. That one and the one at the position `chosen` are explained
/// in full, and as many others as there is room for; the rest only have their end.
pub(super) fn ways(
    network: &Network<'_>,
    prediction: &Prediction,
    kernel: Option<&(usize, Comparison)>,
    chosen: usize,
) -> Vec<Way> {
    let mut room = MOST_RULES;
    let told = |position: usize| {
        let of_this = kernel.filter(|(way, _)| *way == position);
        of_this.map(|(_, comparison)| comparison.told.as_slice()).unwrap_or_default()
    };
    let one = |(position, branch): (usize, &PredictedBranch)| {
        let of_this = told(position);
        let rules = branch.stages.iter().chain(&branch.back).map(|stage| stage.path.0.len() + 1).sum::<usize>();
        room = room.saturating_sub(rules);
        way(network, branch, of_this, room == 0 && position != chosen && of_this.is_empty())
    };
    prediction.branches.iter().enumerate().map(one).collect()
}

fn way(network: &Network<'_>, branch: &PredictedBranch, told: &[Vec<Option<bool>>], is_brief: bool) -> Way {
    let PredictedBranch { share, outcome, assumptions, stages, back } = branch;
    let (verdict, at, source, destination, reply) = match outcome {
        PredictedOutcome::Delivered { at, source, destination, reply } => {
            (OutcomeKind::Delivered, Some(at.clone()), Some(*source), Some(*destination), Some(reply))
        }
        PredictedOutcome::Rejected { at, .. } => (OutcomeKind::Rejected, Some(at.clone()), None, None, None),
        PredictedOutcome::Dropped { at, .. } => (OutcomeKind::Dropped, Some(at.clone()), None, None, None),
        PredictedOutcome::Unknown { rule, .. } => (OutcomeKind::Unknown, Some(rule.netns.clone()), None, None, None),
    };
    let end = match outcome {
        PredictedOutcome::Delivered { at, .. } => format!("{at} gets it"),
        other => other.to_string(),
    };
    let back_end = match (verdict, reply) {
        (_, Some(PredictedReply::From(address))) => format!("the sender gets the answer, from {address}"),
        (_, Some(reply)) => reply.to_string(),
        (OutcomeKind::Rejected, None) => "the sender is told".to_owned(),
        (_, None) => String::new(),
    };
    let (stages, back): (&[_], &[_]) = if is_brief { (&[], &[]) } else { (stages, back) };
    let mut so_far = Share::ONE;
    Way {
        share: Part::from(*share),
        verdict,
        outcome: outcome.to_string(),
        at,
        source,
        destination,
        assumed: (*assumptions != Assumptions::NONE).then(|| assumptions.to_string()),
        there: stops(network, stages, told, &end, &mut so_far),
        back: stops(network, back, told.get(stages.len()..).unwrap_or_default(), &back_end, &mut so_far),
        reply: reply.map(ToString::to_string),
        brief: is_brief,
    }
}

/// The hooks of a way, and how it ends.
fn stops(
    network: &Network<'_>,
    stages: &[Arc<Stage>],
    told: &[Vec<Option<bool>>],
    end: &str,
    share: &mut Share,
) -> Vec<Stop> {
    let stop = |(position, stage): (usize, &Arc<Stage>)| {
        let told = told.get(position).map(Vec::as_slice).unwrap_or_default();
        let then = match stages.get(position + 1) {
            Some(next) => then(network, stage, next),
            None => last(stage, end),
        };
        stop(network, stage, told, then, share)
    };
    stages.iter().enumerate().map(stop).collect()
}

fn stop(network: &Network<'_>, stage: &Stage, told: &[Option<bool>], then: String, share: &mut Share) -> Stop {
    let CallTree { lines, passed } = visits(&network.met(stage), told, share);
    let name = |interface: Option<svclab_rules::walk::Interface>| interface.map(|one| one.name().to_owned());
    Stop {
        place: network.topology().namespaces[stage.netns].name.clone(),
        hook: stage.hook.as_str(),
        input: name(stage.came.input),
        output: name(stage.came.output),
        came: packet_words(&stage.came),
        connection: connection_words(stage),
        changes: changes(stage),
        rules: lines,
        passed,
        then,
    }
}

/// A packet in a line.
fn packet_words(packet: &Packet) -> String {
    let tuple = packet.tuple();
    let kind = match packet.transport {
        svclab_rules::walk::Transport::Tcp { flags, .. } => {
            let flags = match flags {
                2 => " SYN",
                0x12 => " SYN-ACK",
                0x14 => " RST",
                _ => "",
            };
            format!("tcp{flags}")
        }
        svclab_rules::walk::Transport::Udp { .. } => "udp".to_owned(),
        svclab_rules::walk::Transport::Sctp { .. } => "sctp".to_owned(),
        svclab_rules::walk::Transport::Icmp { .. } => {
            return format!("{} > {} icmp error", packet.source, packet.destination);
        }
        svclab_rules::walk::Transport::Other(number) => format!("protocol {number}"),
    };
    let source = SocketAddr::new(packet.source, tuple.source_port);
    let destination = SocketAddr::new(packet.destination, tuple.destination_port);
    let mark = if packet.mark == 0 { String::new() } else { format!(" mark {:#x}", packet.mark) };
    format!("{source} > {destination} {kind}{mark}")
}

/// What is different behind a hook.
fn changes(stage: &Stage) -> Vec<Change> {
    let ends = |packet: &Packet| {
        let tuple = packet.tuple();
        match packet.transport.ports() {
            Some(_) => (
                SocketAddr::new(packet.source, tuple.source_port).to_string(),
                SocketAddr::new(packet.destination, tuple.destination_port).to_string(),
            ),
            None => (packet.source.to_string(), packet.destination.to_string()),
        }
    };
    let (came, left) = (ends(&stage.came), ends(&stage.left));
    let mark = |packet: &Packet| format!("{:#x}", packet.mark);
    let all =
        [("source", came.0, left.0), ("destination", came.1, left.1), ("mark", mark(&stage.came), mark(&stage.left))];
    all.into_iter().filter(|(_, from, to)| from != to).map(|(what, from, to)| Change { what, from, to }).collect()
}

/// What lies between two hooks.
fn then(network: &Network<'_>, stage: &Stage, next: &Stage) -> String {
    let netns = |stage: &Stage| network.topology().namespaces[stage.netns].name.as_str();
    let output = next.came.output.map(|interface| interface.name().to_owned()).unwrap_or_default();
    match (stage.hook, next.hook, stage.netns == next.netns) {
        (_, Hook::Input, true) => "routed: it is for this machine".to_owned(),
        (_, Hook::Forward, true) => format!("routed: it is for another machine, out by {output}"),
        (Hook::Output | Hook::Forward, Hook::Postrouting, true) => format!("about to leave by {output}"),
        (Hook::Postrouting, Hook::Prerouting, true) => "comes back in to the same machine".to_owned(),
        (_, Hook::Output, true) => "goes into a tunnel, as the load of another packet".to_owned(),
        (_, Hook::Prerouting, true) => "comes out of the tunnel".to_owned(),
        (.., false) => format!("leaves, and comes to {}", netns(next)),
        (.., true) => "goes on".to_owned(),
    }
}

/// What follows the last hook.
fn last(stage: &Stage, end: &str) -> String {
    let is_out = stage.hook == Hook::Postrouting && end.ends_with("gets it");
    let way = stage.came.output.filter(|_| is_out).map(|interface| format!("leaves by {}: ", interface.name()));
    format!("{}{end}", way.unwrap_or_default())
}

/// What a connection table says of a packet.
fn connection_words(stage: &Stage) -> Option<&'static str> {
    match stage.tracking {
        _ if !stage.hook.is_entry() => None,
        Tracking::Tracked(tracked) if tracked.state == State::New && tracked.direction == Direction::Original => None,
        Tracking::Tracked(_) => {
            Some("of a known connection: translated as its first packet was, and no rule of nat is asked")
        }
        Tracking::Invalid => Some("of no known connection"),
        Tracking::Untracked => None,
    }
}
