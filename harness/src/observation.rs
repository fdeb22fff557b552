//! The observations of a lab: plain values that probing passes to judging and reports.

mod stream;
mod translations;

pub use stream::{FlowSpan, Following, StreamObservation, StreamOutcome, TimelineRow};
pub(crate) use stream::{Promised, StreamContext, StreamedFlow, longest_pause};
pub use translations::{Destinations, Disagreement, Translations};

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use svclab_rules::cluster::Protocol;

use crate::stats::{Contingency, Independence};
use crate::text::counted;
pub use crate::wire::{Flow, RejectKind, Rejection};

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Observation {
    /// One flow, followed packet by packet.
    Flow(Box<FlowObservation>),
    /// Many flows, counted.
    Tally(Tally),
    /// Flows sent at a rate during a change.
    Stream(Box<StreamObservation>),
}

/// The result of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowObservation {
    /// The protocol.
    pub protocol: Protocol,
    /// The source as the sender sent it.
    pub source: SocketAddr,
    /// The destination as the sender sent it.
    pub destination: SocketAddr,
    /// The outcome of the packet.
    pub outcome: ObservedOutcome,
    /// A rejection that reached the sender before any reply although the packet was delivered, which is always an error.
    pub contradiction: Option<Rejection>,
    /// The source of the reply that reached the sender, as the sender saw it.
    pub reply: Option<SocketAddr>,
    /// Where the packet and its reply were captured, in order.
    pub path: Vec<Sighting>,
}

/// The outcome of a packet, as observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObservedOutcome {
    /// It was delivered once.
    Delivered(Delivery),
    /// It was delivered more than once, at one or several places.
    Duplicated(Vec<Delivery>),
    /// The sender received a rejection.
    Rejected(Rejection),
    /// It was not delivered: barrier frames sent after it have passed every queue, so it is no longer in flight.
    Dropped {
        /// Where it was captured last: `node/worker`, `underlay`; the sender if it was not captured at all.
        at: String,
        /// Whether it had left the cluster before, even if it came back.
        left_cluster: bool,
    },
}

/// A packet as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The receiver, as a scenario names it: `pod/nginx`, `node/worker`, `host/outside`.
    pub at: String,
    /// The source that the receiver saw.
    pub source: SocketAddr,
    /// The destination that the receiver saw.
    pub destination: SocketAddr,
    /// The number of fragments that it arrived in, 1 for an unfragmented packet; `None` if a node's kernel received it, which reassembles
    /// fragments.
    pub fragments: Option<u16>,
}

/// A packet at a point of its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Where: `pod/client`, `node/worker`, `underlay`.
    pub place: String,
    /// The interface.
    pub interface: String,
    /// Whether it came in or went out there.
    pub direction: Direction,
    /// Protocol, addresses and ports; `None` for packets without ports and for tunnels.
    pub flow: Option<Flow>,
    /// The packet in words: `10.244.1.3:37328 > 10.96.34.82:80 tcp [S]`.
    pub packet: String,
}

/// A frame captured at an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Where: `node/worker`, `underlay`.
    pub place: String,
    /// The interface.
    pub interface: String,
    /// Whether it came in or went out there.
    pub direction: Direction,
    /// The time since 1970.
    pub time: Duration,
    /// The test and the probe that were running.
    #[serde(serialize_with = "comment", deserialize_with = "read_comment")]
    pub comment: Option<Arc<str>>,
    /// The whole frame, from its Ethernet header on; cut at 2,048 bytes.
    pub frame: Vec<u8>,
}

fn comment<S: Serializer>(comment: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    comment.as_deref().serialize(serializer)
}

fn read_comment<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Arc::from))
}

/// The direction of a packet at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

impl Direction {
    /// Its name: `in` or `out`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// The sum of many flows. Every flow sent is in exactly one of the counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Flows sent, each with a 5-tuple that was new to the nodes' conntrack tables.
    pub sent: u64,
    /// The address that they were sent from.
    pub sender: Option<IpAddr>,
    /// Flows delivered exactly once, by the destination that the receiver saw.
    pub delivered: BTreeMap<SocketAddr, u64>,
    /// Flows delivered exactly once, by the source address that the receiver saw.
    pub sources: BTreeMap<IpAddr, u64>,
    /// Flows delivered more than once.
    pub duplicated: u64,
    /// Flows not delivered, rejected or not.
    pub lost: u64,
    /// Delivered packets that are not part of any flow that was sent.
    pub unattributed: u64,
    /// How often a flow was sent again because the kernel had dropped it after two CPUs had chosen the same masquerade
    /// port at the same moment. A client retransmits its SYN then.
    pub resent: u64,
    /// The destinations of pairs of flows that were sent right after each other, each flow in one pair; empty if there are more than 64
    /// destinations.
    pub(crate) neighbours: Contingency<SocketAddr, SocketAddr>,
    /// The last three bits of the source ports as sent, with the flows' destinations; empty if there are more than 64.
    pub(crate) ports: Contingency<u16, SocketAddr>,
    /// Increments of the rules' counters; `None` if they were not read or do not exist.
    pub(crate) translated: Option<Box<Translations>>,
}

impl Tally {
    /// The sum of both.
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
        self.duplicated += other.duplicated;
        self.lost += other.lost;
        self.unattributed += other.unattributed;
        self.resent += other.resent;
        self.neighbours = self.neighbours.plus(other.neighbours);
        self.ports = self.ports.plus(other.ports);
        self.translated = match (self.translated, other.translated) {
            (Some(own), Some(other)) => Some(Box::new(own.plus(*other))),
            (own, other) => own.or(other),
        };
        self
    }

    /// The destinations for which the rules' counters and the receivers disagree; empty if counters were not read.
    pub(crate) fn disagreements(&self) -> Vec<Disagreement> {
        self.translated.as_ref().map_or_else(Vec::new, |translated| translated.disagreements(self))
    }

    /// The destinations for which rules and receivers disagree without an explanation: svclab has miscounted, or something else has sent
    /// packets. Lost or duplicated flows explain a disagreement; so do rules of several namespaces if there are more translations than
    /// arrivals, because one may translate again what another has translated to the destination.
    pub(crate) fn contradictions(&self) -> Vec<Disagreement> {
        if self.lost + self.duplicated > 0 {
            return Vec::new();
        }
        let may_be_repeated = self.translated.as_deref().is_some_and(Translations::may_be_repeated);
        let mut differing = self.disagreements();
        differing.retain(|one| one.translated < one.delivered || !may_be_repeated);
        differing
    }

    /// States that the rules' counters confirm the count; `None` if they were not read, do not cover it, or disagree.
    pub(crate) fn confirmation(&self) -> Option<String> {
        let counters = self.translated.as_ref()?;
        if !self.delivered.keys().any(|at| counters.counts_for(at)) || !self.disagreements().is_empty() {
            return None;
        }
        let but = match self.resent {
            0 => String::new(),
            resent => format!(", except for {} resent", counted(resent, "flow")),
        };
        Some(format!("the rules' counters agree with what arrived{but}"))
    }

    /// Returns what the choice among this number of endpoints may depend on, in words, each with the result of a test; `None` if there is
    /// nothing to test.
    pub(crate) fn independence(&self, endpoints: usize) -> [(&'static str, Option<Independence>); 2] {
        [
            ("that of the previous flow", self.neighbours.independence(endpoints)),
            ("its source port", self.ports.independence(endpoints)),
        ]
    }
}

/// The statement that no dependence of a flow's endpoint was found: see [`Tally::independence`].
pub(crate) const INDEPENDENT: &str =
    "the endpoint of a flow depends neither on the previous flow nor on the source port";

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<SocketAddr, u64> {
        counts.iter().map(|(at, count)| (at.parse().unwrap(), *count)).collect()
    }

    fn translations(counts: &[(&str, u64)]) -> Translations {
        let mut all = Translations::default();
        counts.iter().for_each(|(at, count)| all.add("node/a", at.parse::<SocketAddr>().unwrap(), *count));
        all
    }

    #[test]
    fn only_flows_that_are_lost_or_doubled_explain_what_rules_counted_more() {
        let translated = Some(Box::new(translations(&[("10.0.0.1:80", 4)])));
        let tally = Tally { delivered: counts(&[("10.0.0.1:80", 3)]), translated, ..Tally::default() };
        assert_eq!(tally.contradictions().len(), 1);
        for explained in [Tally { lost: 1, ..tally.clone() }, Tally { duplicated: 1, ..tally }] {
            assert_eq!((explained.contradictions(), explained.confirmation()), (Vec::new(), None));
        }
    }

    #[test]
    fn a_count_is_confirmed_by_rules_that_lead_there() {
        let delivered = counts(&[("10.0.0.1:80", 3)]);
        let tally = |translated: &[(&str, u64)]| Tally {
            delivered: delivered.clone(),
            translated: Some(Box::new(translations(translated))),
            ..Tally::default()
        };
        assert!(tally(&[("10.0.0.1:80", 3), ("10.0.0.2:80", 0)]).confirmation().is_some());
        assert_eq!(tally(&[("10.0.0.1:80", 4)]).confirmation(), None);
        assert_eq!(tally(&[("10.0.0.2:80", 0)]).confirmation(), None, "no rule has anything to say");
        let resent = Tally { resent: 1, ..tally(&[("10.0.0.1:80", 4)]) };
        assert!(resent.confirmation().is_some_and(|words| words.ends_with("except for 1 flow resent")));
        let sum = tally(&[("10.0.0.1:80", 3)]).plus(tally(&[("10.0.0.1:80", 3)]));
        assert!(sum.confirmation().is_some() && sum.delivered == counts(&[("10.0.0.1:80", 6)]));
    }

    #[test]
    fn rules_of_two_namespaces_may_have_translated_a_flow_twice() {
        let contradictions = |second: u64, delivered: u64| {
            let mut translated = translations(&[("10.0.0.1:80", 4)]);
            translated.add("node/b", "10.0.0.2:80".parse::<SocketAddr>().unwrap(), second);
            let delivered = counts(&[("10.0.0.1:80", delivered), ("10.0.0.2:80", second)]);
            let tally = Tally { delivered, translated: Some(Box::new(translated)), ..Tally::default() };
            assert_eq!(tally.confirmation(), None);
            tally.contradictions().len()
        };
        assert_eq!(contradictions(1, 3), 0);
        assert_eq!(contradictions(0, 3), 1, "the second translated nothing");
        assert_eq!(contradictions(1, 5), 1, "more than were translated arrived");
    }
}
