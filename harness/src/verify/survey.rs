//! All packets that anyone may send first, class by class, with what is promised and what is predicted of each.

use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;
use svclab_rules::promise::{Promise, Question, VantagePoint};
use svclab_rules::walk::{Classes, Field, Intervals, Narrowing, Packet, Region, Transport, address_bits, bits_address};

use super::MOST_CLASSES;
use super::boundaries::Boundaries;
use super::later::{Behind, Depth, Later};
use super::prepared;
use crate::predict::{Network, NewFlow, OfSet, Prediction, Senders};
use crate::probe::{Counting, FIRST_PORT};
use crate::scenario::{Probe, Scenario, Vantage};
use crate::sources::{Context, Sources};
use crate::topology::InterfaceKind;
use crate::wire::VXLAN_PORT;

/// Packets of which the same is promised and the same predicted.
pub(crate) struct Asked<'s> {
    pub(crate) senders: &'s Senders,
    /// The packets, and one of them as it is sent.
    pub(crate) region: Region,
    pub(crate) packet: Packet,
    /// What is asked by it.
    pub(crate) question: Question,
    pub(crate) vantage: &'s Vantage,
    pub(crate) promise: Promise,
    pub(crate) prediction: Prediction,
    pub(crate) later: Later,
}

impl Asked<'_> {
    /// The packet as a probe; `None` where a lab cannot send it: no machine has its source, or not every source port that a lab may
    /// choose is of the class.
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
            source_port: self.packet.transport.ports().map_or(0, |(source, _)| source),
            to: self.question.to,
            protocol: self.question.protocol,
            via: self.senders.via.clone(),
        }
    }

    /// What is promised and predicted of it.
    pub(crate) fn sources<'c, 'a>(&'c self, context: &'c Context<'a>) -> Sources<'c, 'a> {
        let sent = (self.senders, &self.packet);
        Sources::about_packet(context, &self.question, sent, (self.promise.clone(), self.prediction.clone()))
    }
}

/// What was found of a set of packets.
struct Answer<'s> {
    /// Nothing where no packet of it is sent to any machine but the sender's own, or no service may be asked by it.
    asked: Option<Asked<'s>>,
    of_set: OfSet,
    /// Sources that are set apart in it.
    apart: Vec<u128>,
}

/// After how many classes progress is reported.
const REPORTED: usize = 256;

/// What going through classes has come to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Surveyed {
    /// How many classes there are.
    pub(crate) classes: usize,
    /// How many regions were left out, as there were too many.
    pub(crate) left_out: usize,
}

/// What all classes are asked about.
pub(crate) struct Survey<'x, 'a> {
    pub(crate) context: &'x Context<'a>,
    /// The network with the rules that the release writes.
    pub(crate) released: &'x Network<'a>,
    pub(crate) boundaries: &'x Boundaries,
    pub(crate) depth: Depth,
    /// How many classes of senders that send alike are followed at most.
    most: usize,
    /// Whether nodes tunnel packets to each other.
    has_tunnels: bool,
}

impl<'x, 'a> Survey<'x, 'a> {
    pub(crate) fn new(
        context: &'x Context<'a>,
        released: &'x Network<'a>,
        boundaries: &'x Boundaries,
        depth: Depth,
    ) -> Self {
        let mut interfaces = context.network.topology().namespaces.iter().flat_map(|netns| &netns.interfaces);
        let has_tunnels = interfaces.any(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. }));
        Self { context, released, boundaries, depth, most: MOST_CLASSES as usize, has_tunnels }
    }

    /// The same with another limit.
    pub(crate) fn at_most(self, classes: u32) -> Self {
        Self { most: classes as usize, ..self }
    }

    /// Goes through the classes of all first packets of some senders that open a connection of TCP, UDP or SCTP.
    pub(crate) fn all<'s>(
        &self,
        senders: &'s Senders,
        counting: Option<&Counting>,
        found: impl FnMut(Asked<'s>),
    ) -> Surveyed {
        let regions = regions(&senders.packets(&self.context.network));
        self.classes(senders, Classes::of(regions, senders.like()), counting, found)
    }

    /// The same of some packets; witnesses are like one of them.
    pub(crate) fn of<'s>(&self, senders: &'s Senders, region: Region, like: Packet, found: impl FnMut(Asked<'s>)) {
        self.classes(senders, Classes::of([region], like), None, found);
    }

    fn classes<'s>(
        &self,
        senders: &'s Senders,
        mut classes: Classes,
        counting: Option<&Counting>,
        mut found: impl FnMut(Asked<'s>),
    ) -> Surveyed {
        let mut surveyed = Surveyed::default();
        let mut expected = 0;
        while let Some(class) = classes.next_by(|witness, narrowing| self.ask(senders, witness, narrowing)) {
            surveyed.classes += 1;
            if let Some(Answer { asked, of_set, apart }) = class.found {
                let region = asked.as_ref().map_or(&class.region, |asked| &asked.region);
                for source in apart {
                    surveyed.classes += 1;
                    let region = region.with(Field::Source, Intervals::one(source));
                    let (asked, rest) = self.ask_apart(senders, &of_set, source, region);
                    classes.add(rest);
                    asked.into_iter().for_each(&mut found);
                }
                asked.into_iter().for_each(&mut found);
            }
            if let Some(counting) =
                counting.filter(|_| surveyed.classes.is_multiple_of(REPORTED) || classes.left() == 0)
            {
                // At least one class for each region that is left.
                let now = surveyed.classes + classes.left();
                counting.expect(now.saturating_sub(expected) as u64);
                expected = expected.max(now);
                counting.counted(((surveyed.classes - 1) % REPORTED + 1) as u64);
            }
            // What is left takes memory as well.
            if surveyed.classes + classes.left() > self.most {
                surveyed.left_out = classes.left();
                break;
            }
        }
        surveyed
    }

    /// Asks about a packet, and leaves those of its set of which something else is promised or predicted. `None` where it is not sent
    /// to any machine but the sender's own, or no service may be asked by it.
    fn ask<'s>(&self, senders: &'s Senders, witness: &Packet, narrowing: &Narrowing) -> Option<Answer<'s>> {
        let mut witness = *witness;
        if senders.are_pods()
            && let Some((source, others)) = self.boundaries.plain_source(&witness, &narrowing.region()[Field::Source])
        {
            narrowing.set_sources_apart(source, others);
            witness.source = bits_address(source, witness.family());
        }
        let of_set = self.context.network.predict_apart(senders, &witness, narrowing)?;
        let asked = self.judge(senders, of_set.packet, of_set.prediction.clone(), narrowing);
        let asked = asked.map(|asked| Asked { region: narrowing.own_region(), ..asked });
        Some(Answer { asked, of_set, apart: narrowing.apart() })
    }

    /// Asks about the packet of a source that was set apart. Returns also what is left of its region.
    fn ask_apart<'s>(
        &self,
        senders: &'s Senders,
        of_set: &OfSet,
        source: u128,
        region: Region,
    ) -> (Option<Asked<'s>>, Vec<Region>) {
        let packet = Packet { source: bits_address(source, region.family()), ..of_set.packet };
        let narrowing = Narrowing::of(region, &packet);
        let prediction = of_set.of_source(&self.context.network, senders, &packet, &narrowing);
        let asked = prediction.and_then(|prediction| self.judge(senders, packet, prediction, &narrowing));
        (asked, narrowing.take_rest())
    }

    /// What is promised of a packet of which this is predicted, and what becomes of packets behind it.
    fn judge<'s>(
        &self,
        senders: &'s Senders,
        packet: Packet,
        prediction: Prediction,
        narrowing: &Narrowing,
    ) -> Option<Asked<'s>> {
        let network = &self.context.network;
        self.boundaries.narrow(&packet, narrowing);
        if senders.are_pods() && is_own(&packet, narrowing) || self.has_tunnels && is_of_tunnel(&packet, narrowing) {
            return None;
        }
        let vantage = senders.vantage(&packet)?;
        let question = question(network, senders, &packet)?;
        let promise = self.context.promise(&question);
        let behind = Behind {
            network,
            released: self.released,
            senders,
            packet,
            promise: &promise,
            prediction: &prediction,
            narrowing,
        };
        let later = behind.later(self.depth);
        Some(Asked { senders, region: narrowing.region(), packet, question, vantage, promise, prediction, later })
    }
}

/// Whether a pod sends a packet to itself, which does not leave it. Where a set has packets to many pods, those of each to itself are in
/// it, although none sends them.
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

/// Whether a packet is for the port of the tunnels between nodes, whose kernels take it for one of theirs.
fn is_of_tunnel(packet: &Packet, narrowing: &Narrowing) -> bool {
    let one = |field: Field, number: u128| narrowing.ask(field, field.of(packet), &Intervals::one(number));
    one(Field::Protocol, Protocol::Udp.number().into()) && one(Field::DestinationPort, VXLAN_PORT.into())
}

/// The packets that open connections of protocols that services may have.
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

/// The question that a packet puts to the promise.
fn question(network: &Network<'_>, senders: &Senders, packet: &Packet) -> Option<Question> {
    let protocol = Protocol::of_number(packet.transport.protocol())?;
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
