//! All packets that anybody may send first, class by class, with what is promised and what is predicted of each.

use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;
use svclab_rules::promise::{Question, VantagePoint};
use svclab_rules::walk::{Classes, Field, Intervals, Narrowing, Packet, Region, Transport, address_bits};

use super::boundaries::Boundaries;
use crate::predict::{Network, Prediction, Senders};
use crate::scenario::Vantage;
use crate::sources::Context;
use crate::topology::InterfaceKind;
use crate::wire::VXLAN_PORT;

/// Packets of which the same is promised and the same predicted.
pub(super) struct Asked<'s> {
    pub(super) senders: &'s Senders,
    /// The packets, and one of them as it is sent.
    pub(super) region: Region,
    pub(super) packet: Packet,
    /// What is asked by it.
    pub(super) question: Question,
    pub(super) vantage: &'s Vantage,
    pub(super) prediction: Prediction,
}

/// How many classes are followed.
const MOST_CLASSES: usize = 4_000_000;

/// What a survey has come to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surveyed {
    /// How many classes there are.
    pub(super) classes: usize,
    /// How many regions were left out, as there were too many.
    pub(super) left_out: usize,
}

/// Goes through the classes of all first packets of some senders that open a connection of TCP, UDP or SCTP.
pub(super) fn survey<'s>(
    context: &Context<'_>,
    boundaries: &Boundaries,
    senders: &'s Senders,
    mut found: impl FnMut(Asked<'s>),
) -> Surveyed {
    let network = &context.network;
    let mut surveyed = Surveyed::default();
    let regions = regions(&senders.packets(network));
    let mut classes = Classes::of(regions, senders.like());
    while let Some(class) = classes.next_by(|witness, narrowing| {
        let (packet, prediction) = network.predict_set(senders, witness, Some(narrowing), None)?;
        boundaries.narrow(&packet, narrowing);
        // What a pod sends to itself does not leave it.
        let own = Intervals::one(address_bits(packet.destination));
        let is_own = senders.are_pods() && narrowing.ask(Field::Source, address_bits(packet.source), &own);
        (!is_own && !is_of_tunnel(network, &packet, narrowing)).then_some((packet, prediction))
    }) {
        surveyed.classes += 1;
        let Some((packet, prediction)) = class.found else { continue };
        if let (Some(vantage), Some(question)) = (senders.vantage(&packet), question(network, senders, &packet)) {
            found(Asked { senders, region: class.region, packet, question, vantage, prediction });
        }
        if surveyed.classes >= MOST_CLASSES {
            surveyed.left_out = classes.left();
            break;
        }
    }
    surveyed
}

/// Whether a packet is for the port of the tunnels between nodes, whose kernels take it for one of theirs.
fn is_of_tunnel(network: &Network<'_>, packet: &Packet, narrowing: &Narrowing) -> bool {
    let mut interfaces = network.topology().namespaces.iter().flat_map(|netns| &netns.interfaces);
    interfaces.any(|interface| matches!(interface.kind, InterfaceKind::Vxlan { .. })) && {
        let one = |field: Field, number: u128| narrowing.ask(field, field.of(packet), &Intervals::one(number));
        one(Field::Protocol, Protocol::Udp.number().into()) && one(Field::DestinationPort, VXLAN_PORT.into())
    }
}

/// The packets that open connections of protocols that services may have.
fn regions(all: &Region) -> Vec<Region> {
    let of = |protocol: Protocol| all.with(Field::Protocol, Intervals::one(protocol.number().into()));
    let syn = Intervals::one(Transport::SYN.into());
    // Nobody opens a connection to port 0, or from it.
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
