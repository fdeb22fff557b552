//! Walks all possible first packets, class by class, with the promise and the prediction for each.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;
use svclab_rules::promise::{Promise, PromisedEndpoint, PromisedOutcome, Question, VantagePoint};
use svclab_rules::walk::{
    Classes, Field, Intervals, Narrowing, Packet, Region, Share, Transport, address_bits, address_from_bits,
};

use super::MAX_CLASSES;
use super::boundaries::Boundaries;
use super::later_packets::{Depth, FirstPacket, Later};
use super::prepared;
use crate::predict::{Network, NewFlow, PredictedBranch, PredictedOutcome, Prediction, Senders, SetTraversal};
use crate::probe::{Counting, FIRST_PORT};
use crate::scenario::{Probe, Scenario, Shape, Vantage};
use crate::sources::{Context, Sources};
use crate::topology::InterfaceKind;
use crate::wire::VXLAN_PORT;

/// A class: packets with the same promise and the same prediction.
pub(crate) struct PacketClass<'s> {
    pub(crate) senders: &'s Senders,
    /// The packets of the class.
    pub(crate) region: Region,
    pub(crate) packet: Packet,
    /// The question about its representative.
    pub(crate) question: Question,
    pub(crate) vantage: &'s Vantage,
    pub(crate) promise: Promise,
    pub(crate) prediction: Prediction,
    /// Whether the prediction contains only the branches in which this packet is handled differently from another one that keeps its
    /// promise.
    is_part: bool,
    pub(crate) later: Later,
}

impl<'s> PacketClass<'s> {
    /// The packet as a probe; `None` if a lab cannot send it: no machine has its source, or a source port that a lab may choose is outside
    /// of the class.
    pub(crate) fn probe(&self, scenario: &Scenario) -> Option<Probe> {
        let ports = Intervals::between(FIRST_PORT.into(), u16::MAX.into());
        let is_any = ports.without(&self.region[Field::SourcePort]).is_empty();
        let is_sendable = is_any && self.senders.has(&self.packet);
        is_sendable.then(|| prepared::probe(scenario, &self.question, self.vantage))
    }

    /// The packet as a flow.
    pub(crate) fn flow(&self) -> NewFlow {
        NewFlow {
            from: self.vantage.clone(),
            source: (!self.senders.has(&self.packet)).then_some(self.packet.source),
            source_port: self.packet.transport.ports().map_or(0, |(source, _)| source),
            to: self.question.to,
            protocol: self.question.protocol,
            via: self.senders.via.clone(),
            shape: Shape::default(),
        }
    }

    /// The promise and the prediction for it.
    pub(crate) fn sources<'c, 'a>(&'c self, context: &'c Context<'a>) -> Sources<'c, 'a> {
        let sent = (self.senders, self.packet);
        let found = (self.promise.clone(), self.prediction.clone());
        Sources::about_packet(context, &self.question, sent, found).about_part(self.is_part)
    }

    /// The same, but consuming the class; `question` is its question.
    pub(super) fn into_sources<'c, 'a>(self, context: &'c Context<'a>, question: &'c Question) -> Sources<'c, 'a>
    where
        's: 'c,
    {
        let Self { senders, packet, promise, prediction, is_part, .. } = self;
        Sources::about_packet(context, question, (senders, packet), (promise, prediction)).about_part(is_part)
    }
}

/// The answer for a set of packets.
struct ClassAnswer<'s> {
    /// The class; `None` if its packets are not sent to any machine but the sender's own, or cannot be for a service.
    asked: Option<PacketClass<'s>>,
    /// The sources that were forked off in it, if any.
    forked: Option<(SetTraversal, Vec<u128>)>,
}

/// The number of classes after which progress is reported.
const REPORTED: usize = 256;

/// The result of walking classes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClassCount {
    /// The number of classes.
    pub(crate) classes: usize,
    /// The number of regions that were left out because there were too many.
    pub(crate) left_out: usize,
}

/// A walk through all classes.
pub(crate) struct ClassWalk<'x, 'a> {
    pub(crate) context: &'x Context<'a>,
    /// The network with the release's own rules.
    pub(crate) released: &'x Network<'a>,
    pub(crate) boundaries: &'x Boundaries,
    pub(crate) depth: Depth,
    /// The maximum number of classes for each group of senders.
    most: usize,
    /// Whether nodes tunnel packets between each other.
    has_tunnels: bool,
}

impl<'x, 'a> ClassWalk<'x, 'a> {
    pub(crate) fn new(
        context: &'x Context<'a>,
        released: &'x Network<'a>,
        boundaries: &'x Boundaries,
        depth: Depth,
    ) -> Self {
        let mut interfaces = context.network.topology().namespaces.iter().flat_map(|netns| &netns.interfaces);
        let has_tunnels = interfaces.any(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. }));
        Self { context, released, boundaries, depth, most: MAX_CLASSES as usize, has_tunnels }
    }

    /// The same with another limit.
    pub(crate) fn at_most(self, classes: u32) -> Self {
        Self { most: classes as usize, ..self }
    }

    /// Walks the classes of all first packets of some senders that open a TCP, UDP or SCTP connection.
    pub(crate) fn all<'s>(
        &self,
        senders: &'s Senders,
        counting: Option<&Counting>,
        mut found: impl FnMut(PacketClass<'s>),
    ) -> ClassCount {
        self.all_judged(senders, counting, |asked| {
            found(asked);
            false
        })
    }

    /// Like [`Self::all`], but `found` returns whether all predictions for a class are as promised. If so, only the differing branches are
    /// predicted for the sources that are forked off in it.
    pub(crate) fn all_judged<'s>(
        &self,
        senders: &'s Senders,
        counting: Option<&Counting>,
        found: impl FnMut(PacketClass<'s>) -> bool,
    ) -> ClassCount {
        let regions = regions(&senders.packets(&self.context.network));
        self.classes(senders, Classes::of(regions, senders.like()), counting, found)
    }

    /// Walks the classes of some packets; representatives are chosen close to `like`.
    pub(crate) fn of<'s>(
        &self,
        senders: &'s Senders,
        region: Region,
        like: Packet,
        mut found: impl FnMut(PacketClass<'s>),
    ) {
        self.classes(senders, Classes::of([region], like), None, |asked| {
            found(asked);
            false
        });
    }

    fn classes<'s>(
        &self,
        senders: &'s Senders,
        mut classes: Classes,
        counting: Option<&Counting>,
        mut found: impl FnMut(PacketClass<'s>) -> bool,
    ) -> ClassCount {
        let mut class_count = ClassCount::default();
        let (mut expected, mut reported) = (0, 0);
        while let Some(class) = classes.next_by(|witness, narrowing| self.ask(senders, witness, narrowing)) {
            class_count.classes += 1;
            if let Some(ClassAnswer { asked, forked }) = class.found {
                let promise = asked.as_ref().filter(|_| forked.is_some()).map(|asked| asked.promise.clone());
                let is_kept = asked.is_some_and(&mut found);
                let kept = promise.filter(|_| is_kept);
                for (of_set, source) in
                    forked.iter().flat_map(|(of_set, all)| all.iter().map(move |one| (of_set, *one)))
                {
                    class_count.classes += 1;
                    let region = class.region.with(Field::Source, Intervals::one(source));
                    let (asked, rest) = self.ask_forked(senders, of_set, region, kept.as_ref());
                    classes.add(rest);
                    asked.map(&mut found);
                }
            }
            let is_due = class_count.classes - reported >= REPORTED || classes.left() == 0;
            if let Some(counting) = counting.filter(|_| is_due) {
                // There is at least one class for each remaining region.
                let now = class_count.classes + classes.left();
                counting.expect(now.saturating_sub(expected) as u64);
                expected = expected.max(now);
                counting.counted((class_count.classes - reported) as u64);
                reported = class_count.classes;
            }
            // The remaining regions take memory as well.
            if class_count.classes + classes.left() > self.most {
                class_count.left_out = classes.left();
                break;
            }
        }
        class_count
    }

    /// Compares the sources for a packet, and narrows its set to packets with the same promise and prediction. `None` if it is not sent to
    /// any machine but the sender's own, or cannot be for a service.
    fn ask<'s>(&self, senders: &'s Senders, witness: &Packet, narrowing: &Narrowing) -> Option<ClassAnswer<'s>> {
        let mut witness = *witness;
        if senders.are_pods()
            && let Some((source, others)) = self.boundaries.plain_source(&witness, &narrowing.region()[Field::Source])
        {
            narrowing.fork_sources(source, others);
            witness.source = address_from_bits(source, witness.family());
        }
        let of_set = self.context.network.predict_forked(senders, &witness, narrowing)?;
        let packet = of_set.packet;
        let (prediction, of_set) = if narrowing.forked().is_empty() {
            (of_set.prediction, None)
        } else {
            (of_set.prediction.clone(), Some(of_set))
        };
        let asked = self.judge(senders, packet, narrowing, |_| (prediction, false));
        let asked = asked.map(|asked| PacketClass { region: narrowing.own_region(), ..asked });
        Some(ClassAnswer { asked, forked: of_set.map(|of_set| (of_set, narrowing.forked())) })
    }

    /// Compares the sources for the packets of a source that was forked off, which form a region. Also returns the rest of the region.
    /// `kept` is the promise for the set, if all predictions for it are as promised.
    fn ask_forked<'s>(
        &self,
        senders: &'s Senders,
        of_set: &SetTraversal,
        region: Region,
        kept: Option<&Promise>,
    ) -> (Option<PacketClass<'s>>, Vec<Region>) {
        let source = region[Field::Source].first().map(|source| address_from_bits(source, region.family()));
        let packet = Packet { source: source.unwrap_or(of_set.packet.source), ..of_set.packet };
        let narrowing = Narrowing::of(region, &packet);
        let own = of_set.own_branches(&self.context.network, senders, &packet, &narrowing);
        let asked = own.and_then(|own| {
            self.judge(senders, packet, &narrowing, |promise| {
                let replaced = || of_set.replaced(packet.source);
                if kept.is_some_and(|kept| is_handled_alike((kept, promise), replaced(), &own)) {
                    (of_set.part(packet.source, own), true)
                } else {
                    (of_set.whole(packet.source, own), false)
                }
            })
        });
        (asked, narrowing.take_rest())
    }

    /// Judges a packet: its promise, its prediction, and the outcome of later packets. `predicted` states whether the prediction is
    /// partial.
    fn judge<'s>(
        &self,
        senders: &'s Senders,
        packet: Packet,
        narrowing: &Narrowing,
        predicted: impl FnOnce(&Promise) -> (Prediction, bool),
    ) -> Option<PacketClass<'s>> {
        let network = &self.context.network;
        self.boundaries.narrow(&packet, narrowing);
        if senders.are_pods() && is_own(&packet, narrowing) || self.has_tunnels && is_of_tunnel(&packet, narrowing) {
            return None;
        }
        let vantage = senders.vantage(&packet)?;
        let question = question(network, senders, &packet)?;
        let promise = self.context.promise(&question);
        let (prediction, is_part) = predicted(&promise);
        let first = FirstPacket {
            network,
            released: self.released,
            senders,
            packet,
            promise: &promise,
            prediction: &prediction,
            narrowing,
            depth: self.depth,
        };
        let later = first.later();
        Some(PacketClass {
            senders,
            region: narrowing.region(),
            packet,
            question,
            vantage,
            promise,
            prediction,
            is_part,
            later,
        })
    }
}

/// Whether a packet has the same promise as one that keeps it (`kept`), and differs from it only in branches that replace others with the
/// same shares.
fn is_handled_alike<'p>(
    (kept, promise): (&Promise, &Promise),
    replaced: impl Iterator<Item = &'p PredictedBranch>,
    own: &'p [PredictedBranch],
) -> bool {
    let (
        PromisedOutcome::Delivered { endpoints, affinity_seconds: None },
        PromisedOutcome::Delivered { endpoints: others, affinity_seconds: None },
    ) = (&kept.outcome, &promise.outcome)
    else {
        return false;
    };
    let (Some(taken), Some(given)) = (shares(replaced), shares(own.iter())) else { return false };
    let is_same = |(one, other): (&PromisedEndpoint, &PromisedEndpoint)| {
        one == other || one.address == other.address && one.share == other.share && given.contains_key(&one.address)
    };
    taken == given
        && (&kept.node, &kept.service, kept.known_bug) == (&promise.node, &promise.service, promise.known_bug)
        && endpoints.len() == others.len()
        && endpoints.iter().zip(others).all(is_same)
}

/// The shares of branches by their destinations; `None` if one is not delivered.
fn shares<'p>(branches: impl Iterator<Item = &'p PredictedBranch>) -> Option<BTreeMap<SocketAddr, Share>> {
    let mut shares = BTreeMap::new();
    for branch in branches {
        let PredictedOutcome::Delivered { destination, .. } = &branch.outcome else { return None };
        let share = shares.entry(*destination).or_insert(Share::ZERO);
        *share = share.plus(branch.share);
    }
    Some(shares)
}

/// Whether a pod sends a packet to itself, which does not leave the pod. A set with packets to many pods includes those of each pod to
/// itself, although they are never sent.
fn is_own(packet: &Packet, narrowing: &Narrowing) -> bool {
    let [from, to] = [packet.source, packet.destination].map(address_bits);
    if from == to {
        narrowing.ask(Field::Destination, to, &Intervals::one(to));
    }
    if narrowing.is_open(Field::Destination, to) {
        return false;
    }
    narrowing.ask(Field::Source, from, &Intervals::one(to))
}

/// Whether a packet is for the port of the tunnels between nodes, whose kernels would decapsulate it.
fn is_of_tunnel(packet: &Packet, narrowing: &Narrowing) -> bool {
    let one = |field: Field, number: u128| narrowing.ask(field, field.of(packet), &Intervals::one(number));
    one(Field::Protocol, Protocol::Udp.number().into()) && one(Field::DestinationPort, VXLAN_PORT.into())
}

/// The packets that open connections, by the protocols of services.
fn regions(all: &Region) -> Vec<Region> {
    let of = |protocol: Protocol| all.with(Field::Protocol, Intervals::one(protocol.number().into()));
    let syn = Intervals::one(Transport::SYN.into());
    // Port 0 is reserved.
    let ports = Intervals::between(1, u16::MAX.into());
    let opening =
        |region: Region| region.with(Field::SourcePort, ports.clone()).with(Field::DestinationPort, ports.clone());
    [of(Protocol::Tcp).with(Field::Flags, syn), of(Protocol::Udp), of(Protocol::Sctp)]
        .into_iter()
        .map(opening)
        .collect()
}

/// The question about a packet.
fn question(network: &Network<'_>, senders: &Senders, packet: &Packet) -> Option<Question> {
    let protocol = Protocol::from_number(packet.transport.protocol())?;
    let (_, port) = packet.transport.ports()?;
    let from = match senders.vantage(packet)? {
        Vantage::Pod(name) => VantagePoint::Pod(name.clone()),
        Vantage::Node(name) => VantagePoint::Node(name.clone()),
        Vantage::Localhost(name) => VantagePoint::Localhost(name.clone()),
        Vantage::Host(_) => VantagePoint::Outside(packet.source),
    };
    let entry = || {
        let node = network.topology().entry_node(packet.destination).filter(|_| senders.is_outside());
        node.and_then(|node| node.node_name()).map(str::to_owned)
    };
    let via = senders.via.clone().or_else(entry);
    Some(Question { from, to: SocketAddr::new(packet.destination, port), protocol, via })
}
