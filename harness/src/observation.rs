//! What the lab saw: plain values, from probing to judging to reports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use svclab_rules::cluster::Protocol;

use crate::stats::Contingency;
use crate::wire::{Flow, Refusal};

/// What came of one probe.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// One flow, followed packet by packet.
    Flow(Box<FlowObservation>),
    /// Many flows, counted.
    Tally(Tally),
}

/// What came of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowObservation {
    /// The protocol.
    pub protocol: Protocol,
    /// The source as the sender sent it.
    pub source: SocketAddr,
    /// The destination as the sender sent it.
    pub destination: SocketAddr,
    /// What became of the packet.
    pub outcome: Observed,
    /// What the sender was told although the packet came out, before any answer: it must not be told anything.
    pub contradiction: Option<Refusal>,
    /// The answer that reached the sender, with its source as the sender saw it.
    pub reply: Option<SocketAddr>,
    /// Where the packet and its answer were seen, in order.
    pub path: Vec<Sighting>,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// It came out.
    Delivered(Delivery),
    /// It came out at several places, or more than once at one.
    Doubled(Vec<Delivery>),
    /// The sender was told that it is refused.
    Rejected(Refusal),
    /// It came out nowhere: a marker sent after it had passed every queue, and no packet was left under way.
    Dropped,
}

/// A packet as its receiver got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Who got it, as a scenario names it: `pod/nginx`, `node/worker`, `host/outside`.
    pub at: String,
    /// The source that the receiver saw.
    pub source: SocketAddr,
    /// The destination that the receiver saw.
    pub destination: SocketAddr,
}

/// A packet at a point of its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Where: `pod/client`, `node/worker`, `underlay`.
    pub place: String,
    /// The interface.
    pub interface: String,
    /// Whether it came in or went out there.
    pub direction: Direction,
    /// Protocol, addresses and ports; `None` for what has no ports, and for a tunnel.
    pub flow: Option<Flow>,
    /// The packet in words: `10.244.1.3:37328 > 10.96.34.82:80 tcp [S]`.
    pub packet: String,
}

/// A frame as it was at an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Where: `node/worker`, `underlay`.
    pub place: String,
    /// The interface.
    pub interface: String,
    /// Whether it came in or went out there.
    pub direction: Direction,
    /// When, since 1970.
    pub time: Duration,
    /// The whole frame, from its Ethernet header on; cut at 2,048 bytes.
    pub frame: Vec<u8>,
}

/// The direction of a packet at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// The sum of many flows. Every flow sent is in exactly one of the counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Flows sent, each a 5-tuple that the nodes had no connection of.
    pub sent: u64,
    /// The address that they were sent from.
    pub sender: Option<IpAddr>,
    /// Flows that came out exactly once, by the destination that the receiver saw.
    pub delivered: BTreeMap<SocketAddr, u64>,
    /// Flows that came out exactly once, by the source address that the receiver saw.
    pub sources: BTreeMap<IpAddr, u64>,
    /// Flows that came out more than once.
    pub doubled: u64,
    /// Flows that came out nowhere, whatever the sender was told.
    pub lost: u64,
    /// Packets that came out and belong to no flow that was sent.
    pub unattributed: u64,
    /// How often a flow was sent again because the kernel had dropped it by itself: two processors had chosen the same port
    /// for a masquerade at the same moment. A client sends its SYN again then.
    pub repeated: u64,
    /// The destinations of flows and of those that were sent right after them, each flow in one pair; nothing where there are
    /// more than 64 destinations.
    pub neighbours: Contingency<SocketAddr, SocketAddr>,
    /// The last three bits of source ports, as flows were sent, with their destinations; nothing where there are more than 64.
    pub ports: Contingency<u16, SocketAddr>,
}

impl Tally {
    /// The flows of both.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.sent += other.sent;
        self.sender = self.sender.or(other.sender);
        for (at, count) in other.delivered {
            *self.delivered.entry(at).or_default() += count;
        }
        for (source, count) in other.sources {
            *self.sources.entry(source).or_default() += count;
        }
        self.doubled += other.doubled;
        self.lost += other.lost;
        self.unattributed += other.unattributed;
        self.repeated += other.repeated;
        self.neighbours = self.neighbours.plus(other.neighbours);
        self.ports = self.ports.plus(other.ports);
        self
    }
}

/// How many connections rules have translated to each destination, as their own counters say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translations(BTreeMap<SocketAddr, u64>);

/// A destination for which rules have counted something else than its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement {
    /// The destination.
    pub at: SocketAddr,
    /// Connections that rules translated to it.
    pub translated: u64,
    /// Flows that came out there.
    pub delivered: u64,
}

impl Translations {
    /// So many connections more were translated.
    pub fn add(&mut self, to: SocketAddr, connections: u64) {
        *self.0.entry(to).or_default() += connections;
    }

    /// How many were translated to each destination that a rule has.
    pub fn by_destination(&self) -> &BTreeMap<SocketAddr, u64> {
        &self.0
    }

    /// What was translated since an earlier look. Destinations whose rules were not used are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |at| earlier.0.get(at).copied().unwrap_or_default();
        let newly = self.0.iter().map(|(at, now)| (*at, now.saturating_sub(before(at))));
        Self(newly.filter(|(_, count)| *count > 0).collect())
    }

    /// The destinations where rules and receivers disagree about how many flows there were. Rules count a flow each time that
    /// it is sent, so they may have more where some were repeated, in all by as many as were.
    pub fn disagreements(&self, tally: &Tally) -> Vec<Disagreement> {
        let delivered = &tally.delivered;
        let everywhere: BTreeSet<&SocketAddr> = self.0.keys().chain(delivered.keys()).collect();
        let count = |counts: &BTreeMap<SocketAddr, u64>, at| counts.get(at).copied().unwrap_or_default();
        let each = everywhere.into_iter().map(|at| Disagreement {
            at: *at,
            translated: count(&self.0, at),
            delivered: count(delivered, at),
        });
        let differing: Vec<Disagreement> = each.filter(|one| one.translated != one.delivered).collect();
        let more = |one: &Disagreement| one.translated.checked_sub(one.delivered);
        let is_of_repeats = differing.iter().map(more).sum::<Option<u64>>() == Some(tally.repeated);
        if is_of_repeats { Vec::new() } else { differing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<SocketAddr, u64> {
        counts.iter().map(|(at, count)| (at.parse().unwrap(), *count)).collect()
    }

    #[test]
    fn rules_and_receivers_agree_or_are_told_apart() {
        let before = Translations(counts(&[("10.0.0.1:80", 7), ("10.0.0.2:80", 7)]));
        let after = Translations(counts(&[("10.0.0.1:80", 10), ("10.0.0.2:80", 7), ("10.0.0.3:80", 2)]));
        let newly = after.since(&before);
        assert_eq!(newly.by_destination(), &counts(&[("10.0.0.1:80", 3), ("10.0.0.3:80", 2)]));
        let disagreements = |delivered, repeated| {
            let tally = Tally { delivered: counts(delivered), repeated, ..Tally::default() };
            newly.disagreements(&tally).iter().map(|one| (one.translated, one.delivered)).collect::<Vec<_>>()
        };
        let arrived = &[("10.0.0.1:80", 3), ("10.0.0.3:80", 2)];
        assert_eq!(disagreements(arrived, 0), []);
        assert_eq!(disagreements(&[("10.0.0.1:80", 3), ("10.0.0.4:80", 1)], 0), [(2, 0), (0, 1)]);
        assert_eq!(disagreements(&[("10.0.0.1:80", 2), ("10.0.0.3:80", 1)], 2), [], "each counted twice");
        assert_eq!(disagreements(&[("10.0.0.1:80", 2), ("10.0.0.3:80", 1)], 1), [(3, 2), (2, 1)]);
        assert_eq!(disagreements(&[("10.0.0.1:80", 4), ("10.0.0.3:80", 1)], 0), [(3, 4), (2, 1)]);
    }
}
