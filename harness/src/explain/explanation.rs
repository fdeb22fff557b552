//! Converts a prediction into an explanation.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::promise::Promise;
use svclab_rules::walk::{Assumptions, Connection, Direction, Hook, Packet, Share, State, Tracking, Tuple};

use super::call_tree::{CallTree, call_tree};
use super::model::{
    Change, Divergence, ExplainedPromise, FirstPacket, HookVisit, KernelRun, OutcomeKind, Path, Proportion, Reason,
    StoppedProxy,
};
use crate::observation::FlowObservation;
use crate::predict::{Cause, Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Stage};
use crate::scenario::{Probe, Scenario};
use crate::sources::{FlowOutcome, promise_words};
use crate::trace::{Comparison, Difference, Passage, Traced, TracedWhat};

/// Returns the packet that is explained.
pub(super) fn packet(probe: &Probe, source: Option<SocketAddr>) -> FirstPacket {
    FirstPacket {
        from: probe.from.to_string(),
        to: probe.to.label.clone(),
        protocol: probe.protocol.as_str(),
        source,
        destination: (probe.to.address, probe.to.port).into(),
    }
}

/// Returns the nodes whose kube-proxy is stopped after this many changes.
pub(super) fn stopped(scenario: &Scenario, step: usize) -> Vec<StoppedProxy> {
    let states: Vec<&Cluster> = scenario.states().take(step + 1).collect();
    let since = |node: &String| {
        let before = states.iter().rev().take_while(|state| state.stopped.contains_key(node)).count();
        StoppedProxy { node: node.clone(), change: states.len() - before }
    };
    states.last().map(|state| state.stopped.keys().map(since).collect()).unwrap_or_default()
}

/// Compares what the kernel did with the prediction.
pub(super) fn kernel(
    flow: &FlowObservation,
    traced: &[Traced],
    branches: Option<&[PredictedBranch]>,
    nearest: Option<&(usize, Comparison)>,
) -> KernelRun {
    let seen = FlowOutcome::observed(flow);
    let is_it =
        |branch: &PredictedBranch| FlowOutcome::predicted(&branch.outcome).is_some_and(|one| one.is_like(&seen));
    let divergence = |difference: &Difference| Divergence {
        place: difference.place.clone(),
        packet: match difference.passage {
            Passage::There => "the packet",
            Passage::Back => "the reply",
        },
        predicted: difference.predicted.clone(),
        kernel: difference.kernel.clone(),
    };
    KernelRun {
        observed: seen.to_string(),
        predicted: branches.map(|branches| branches.iter().any(is_it)),
        path: nearest.map(|(path, _)| path + 1),
        as_predicted: nearest.map_or(0, |(_, comparison)| comparison.alike),
        matched: traced.iter().filter(|one| matches!(one.what, TracedWhat::Rule(_))).count(),
        divergence: nearest.and_then(|(_, comparison)| comparison.difference.as_ref()).map(divergence),
    }
}

/// Converts a promise with its reasons.
pub(super) fn promised(promise: &Promise) -> ExplainedPromise {
    let reason =
        |clause: &svclab_rules::promise::Clause| Reason { sentence: clause.sentence(), citation: clause.citation() };
    ExplainedPromise {
        outcome: promise_words(promise),
        service: promise.service.clone(),
        reasons: promise.because.iter().map(reason).collect(),
        known_bug: promise.known_bug.map(|known_bug| known_bug.to_string()),
    }
}

/// Returns the name of an address's family.
pub(super) fn family(address: IpAddr) -> &'static str {
    match Family::of(address) {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// Maximum number of rules of all paths together, besides those of the chosen path: several random rules in a row result in many thousand
/// paths.
const MAX_RULES: usize = 1 << 15;

/// Returns the paths of a prediction, one of them with the rules that the kernel traced. That path and the one at `chosen` are complete,
/// and as many others as [`MAX_RULES`] allows; the rest have only their outcome.
pub(super) fn paths(
    network: &Network<'_>,
    prediction: &Prediction,
    kernel: Option<&(usize, Comparison)>,
    chosen: usize,
) -> Vec<Path> {
    let mut room = MAX_RULES;
    let traced = |position: usize| {
        let of_this = kernel.filter(|(path, _)| *path == position);
        of_this.map(|(_, comparison)| comparison.matched.as_slice()).unwrap_or_default()
    };
    let one = |(position, branch): (usize, &PredictedBranch)| {
        let of_this = traced(position);
        let rules = branch.stages.iter().chain(&branch.back).map(|stage| stage.path.steps().len() + 1).sum::<usize>();
        room = room.saturating_sub(rules);
        path(network, branch, of_this, room == 0 && position != chosen && of_this.is_empty())
    };
    prediction.branches.iter().enumerate().map(one).collect()
}

fn path(network: &Network<'_>, branch: &PredictedBranch, traced: &[Vec<Option<bool>>], is_abridged: bool) -> Path {
    let PredictedBranch { share, outcome, assumptions, stages, back, .. } = branch;
    let (outcome_kind, at, source, destination, reply) = match outcome {
        PredictedOutcome::Delivered { at, source, destination, reply } => {
            (OutcomeKind::Delivered, Some(at.clone()), Some(*source), Some(*destination), Some(reply))
        }
        PredictedOutcome::Rejected { at, .. } => (OutcomeKind::Rejected, Some(at.clone()), None, None, None),
        PredictedOutcome::Dropped { at, .. } => (OutcomeKind::Dropped, Some(at.clone()), None, None, None),
        PredictedOutcome::Unknown { rule, .. } => (OutcomeKind::Unknown, Some(rule.netns.clone()), None, None, None),
    };
    let end = match outcome {
        PredictedOutcome::Delivered { at, .. } => format!("delivered to {at}"),
        other => words(other, stages),
    };
    let back_end = match (outcome_kind, reply) {
        (_, Some(PredictedReply::From(address))) => format!("the sender receives the reply, from {address}"),
        (_, Some(reply)) => reply.to_string(),
        (OutcomeKind::Rejected, None) => "the sender receives the rejection".to_owned(),
        (_, None) => String::new(),
    };
    let (stages, back): (&[_], &[_]) = if is_abridged { (&[], &[]) } else { (stages, back) };
    let mut so_far = Share::ONE;
    Path {
        share: Proportion::from(*share),
        outcome_kind,
        outcome: words(outcome, stages),
        at,
        source,
        destination,
        assumed: (*assumptions != Assumptions::NONE).then(|| assumptions.to_string()),
        original: visits_of(network, stages, traced, &end, &mut so_far),
        reply: visits_of(network, back, traced.get(stages.len()..).unwrap_or_default(), &back_end, &mut so_far),
        reply_outcome: reply.map(ToString::to_string),
        reply_from: match reply {
            Some(PredictedReply::From(address)) => Some(*address),
            _ => None,
        },
        abridged: is_abridged,
    }
}

/// Returns an outcome in words. One that is due to the address of the packet, which rules may have translated, names it.
fn words(outcome: &PredictedOutcome, stages: &[Arc<Stage>]) -> String {
    let PredictedOutcome::Dropped { cause, .. } = outcome else { return outcome.to_string() };
    match (cause, stages.last().map(|stage| stage.left.destination)) {
        (Cause::Blackhole | Cause::NotItsAddress, Some(ip)) => format!("{outcome} {ip}"),
        (Cause::NoRoute | Cause::NoNeighbour | Cause::Martian, Some(ip)) => {
            format!("{outcome}; its destination is {ip}")
        }
        _ => outcome.to_string(),
    }
}

/// Returns the hooks of a path, and its end.
fn visits_of(
    network: &Network<'_>,
    stages: &[Arc<Stage>],
    traced: &[Vec<Option<bool>>],
    end: &str,
    share: &mut Share,
) -> Vec<HookVisit> {
    let visit = |(position, stage): (usize, &Arc<Stage>)| {
        let traced = traced.get(position).map(Vec::as_slice).unwrap_or_default();
        let next = match stages.get(position + 1) {
            Some(next) => between(network, stage, next),
            None => last(stage, end),
        };
        visit(network, stage, traced, next, share)
    };
    stages.iter().enumerate().map(visit).collect()
}

fn visit(network: &Network<'_>, stage: &Stage, traced: &[Option<bool>], next: String, share: &mut Share) -> HookVisit {
    let text_of = |table: &str, chain: &str, number: usize| network.text_of_rule(stage, (table, chain, number));
    let CallTree { lines, without_effect } = call_tree(&network.matched_rules(stage), traced, share, &text_of);
    let name = |interface: Option<svclab_rules::walk::Interface>| interface.map(|one| one.name().to_owned());
    HookVisit {
        place: network.topology().namespaces[stage.netns].name.clone(),
        hook: stage.hook.as_str(),
        input: name(stage.came.input),
        output: name(stage.came.output),
        packet: packet_words(&stage.came),
        connection: connection_words(network, stage),
        changes: changes(stage),
        rules: lines,
        without_effect,
        next,
    }
}

/// Describes a packet in one line.
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

/// Returns what a hook changes.
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

/// Describes what happens between two hooks.
fn between(network: &Network<'_>, stage: &Stage, next: &Stage) -> String {
    let netns = |stage: &Stage| network.topology().namespaces[stage.netns].name.as_str();
    let output = next.came.output.map(|interface| interface.name().to_owned()).unwrap_or_default();
    match (stage.hook, next.hook, stage.netns == next.netns) {
        (_, Hook::Input, true) => "routed: local delivery".to_owned(),
        (_, Hook::Forward, true) => format!("routed: forwarded, out {output}"),
        (Hook::Output | Hook::Forward, Hook::Postrouting, true) => format!("leaves through {output}"),
        (Hook::Postrouting, Hook::Prerouting, true) => "loops back to the same machine".to_owned(),
        (_, Hook::Output, true) => "encapsulated in a tunnel packet".to_owned(),
        (_, Hook::Prerouting, true) => "decapsulated".to_owned(),
        (.., false) => format!("sent to {}", netns(next)),
        (.., true) => "continues".to_owned(),
    }
}

/// Describes what happens after the last hook.
fn last(stage: &Stage, end: &str) -> String {
    let is_out = stage.hook == Hook::Postrouting && end.starts_with("delivered to ");
    let out = stage.came.output.filter(|_| is_out).map(|interface| format!("leaves through {}: ", interface.name()));
    format!("{}{end}", out.unwrap_or_default())
}

/// Describes the conntrack state of a packet that enters a machine.
fn connection_words(network: &Network<'_>, stage: &Stage) -> Option<String> {
    let words = match stage.tracking {
        _ if !stage.hook.is_entry() => return None,
        Tracking::Tracked(tracked) => {
            if let Some(connection) = network.restored_at(stage) {
                return Some(restored_words(&connection));
            }
            if tracked.state == State::New && tracked.direction == Direction::Original {
                return None;
            }
            "established connection: translated by conntrack; nat rules are skipped"
        }
        Tracking::Invalid => "INVALID: belongs to no tracked connection",
        Tracking::Untracked => return None,
    };
    Some(words.to_owned())
}

/// Names an entry that the conntrack table has from the start, as conntrack(8) lists it.
fn restored_words(connection: &Connection) -> String {
    let tuple = |tuple: &Tuple| {
        let Tuple { source, destination, source_port, destination_port, .. } = tuple;
        format!("src={source} dst={destination} sport={source_port} dport={destination_port}")
    };
    let Connection { original, reply, .. } = connection;
    format!("conntrack entry {} {}: translates it; nat rules are skipped", tuple(original), tuple(reply))
}
