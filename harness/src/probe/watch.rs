//! What is known of one flow while its packets are under way.

use std::time::Duration;

use super::tap::Passing;
use crate::observation::{Delivery, FlowObservation, Observed, Sighting};
use crate::topology::SpaceId;
use crate::wire::{self, Chunk, Flow, Packet, Refusal, Tag, TcpFlags, Transport};

/// The state of a followed flow.
pub(super) struct Watch {
    flow: Flow,
    tag: Tag,
    via: Option<SpaceId>,
    deliveries: Vec<Delivery>,
    refusal: Option<Refusal>,
    reply: Option<Packet>,
    path: Vec<(Duration, Packet, Sighting)>,
}

impl Watch {
    /// Nothing is known yet of a flow as its sender sends it; `via` is the node that its packets are handed to.
    pub(super) fn new(flow: Flow, tag: Tag, via: Option<SpaceId>) -> Self {
        Self { flow, tag, via, deliveries: Vec::new(), refusal: None, reply: None, path: Vec::new() }
    }

    /// The node that the sender's packets are handed to.
    pub(super) fn via(&self) -> Option<SpaceId> {
        self.via
    }

    /// A packet passed an interface.
    pub(super) fn saw(&mut self, passing: &Passing<'_>) {
        let sighting = Sighting {
            place: passing.place.to_owned(),
            interface: passing.interface.to_owned(),
            direction: passing.direction,
            packet: passing.packet.to_string(),
        };
        self.path.push((passing.time, passing.packet.clone(), sighting));
    }

    /// A packet came out at a receiver.
    pub(super) fn came_out(&mut self, at: &str, packet: &Packet) {
        if let Some(flow) = packet.flow().filter(|_| self.is_probe(packet)) {
            let delivery = Delivery { at: at.to_owned(), source: flow.source, destination: flow.destination };
            self.deliveries.push(delivery);
        }
    }

    /// A packet reached the sender. Returns what the sender says to it, where it says anything.
    pub(super) fn came_back(&mut self, packet: &Packet) -> Vec<Packet> {
        if self.reply.is_none() && self.refusal.is_none() {
            self.refusal = wire::refusal(packet, &self.flow);
        }
        if self.reply.is_some() || !self.is_reply(packet) {
            return Vec::new();
        }
        self.reply = Some(packet.clone());
        hang_up(packet)
    }

    /// True for a packet that is addressed to the sender's own port.
    pub(super) fn is_for_sender(&self, packet: &Packet) -> bool {
        let quoted = match &packet.transport {
            Transport::Icmp(wire::Icmp::Error(error)) => error.quoted.as_ref().and_then(|quoted| quoted.flow()),
            _ => None,
        };
        quoted.is_some_and(|flow| flow.source == self.flow.source && packet.destination == self.flow.source.ip())
            || packet.flow().is_some_and(|flow| flow.destination == self.flow.source)
    }

    /// The first packet of the flow, wherever it is and whatever was done to its addresses. A kernel's SYN has no tag.
    fn is_probe(&self, packet: &Packet) -> bool {
        match &packet.transport {
            Transport::Tcp(tcp) => tcp.flags == TcpFlags::SYN,
            Transport::Udp(_) => {
                packet.tag() == Some(self.tag) && wire::answer(packet).is_some_and(|a| a.tag().is_some())
            }
            Transport::Sctp(sctp) => matches!(sctp.chunk, Some(Chunk::Init(_))),
            _ => false,
        }
    }

    fn is_reply(&self, packet: &Packet) -> bool {
        let opens = match &packet.transport {
            Transport::Tcp(tcp) => tcp.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK)),
            Transport::Udp(_) => packet.tag() == Some(self.tag),
            Transport::Sctp(sctp) => matches!(sctp.chunk, Some(Chunk::InitAck(_))),
            _ => false,
        };
        opens && packet.flow().is_some_and(|flow| flow.destination == self.flow.source)
    }

    /// What was found out, when nothing is under way any more.
    pub(super) fn finish(self) -> FlowObservation {
        let (mut deliveries, mut path) = (self.deliveries, self.path);
        if self.reply.is_some() {
            path.retain(|(_, packet, _)| !is_closing(packet));
        }
        path.sort_by_key(|(time, ..)| *time);
        let outcome = match (deliveries.len(), self.refusal) {
            (0, Some(Refusal { kind, what, by })) => Observed::Rejected { kind, what, by },
            (0, None) => Observed::Dropped,
            (1, _) => Observed::Delivered(deliveries.remove(0)),
            _ => Observed::Doubled(deliveries),
        };
        FlowObservation {
            protocol: self.flow.protocol,
            source: self.flow.source,
            destination: self.flow.destination,
            outcome,
            reply: self.reply.and_then(|reply| reply.flow()).map(|flow| flow.source),
            path: path.into_iter().map(|(.., sighting)| sighting).collect(),
        }
    }
}

/// A segment by which a connection that is open is confirmed or ended: of an answered flow it tells nothing.
fn is_closing(packet: &Packet) -> bool {
    let innermost = match &packet.transport {
        Transport::Vxlan(tunnel) => tunnel.inner.as_ref().map(|frame| &frame.packet.transport),
        transport => Some(transport),
    };
    matches!(innermost, Some(Transport::Tcp(tcp)) if !tcp.flags.contains(TcpFlags::SYN))
}

/// What a sender says when its connection is open: it confirms and aborts, so that conntrack takes the flow for closed and a
/// later one from the same port for new.
fn hang_up(reply: &Packet) -> Vec<Packet> {
    let Transport::Tcp(tcp) = &reply.transport else { return Vec::new() };
    let segment = |flags| Packet {
        source: reply.destination,
        destination: reply.source,
        ttl: 64,
        transport: Transport::Tcp(wire::Tcp {
            source_port: tcp.destination_port,
            destination_port: tcp.source_port,
            sequence: tcp.acknowledgment,
            acknowledgment: tcp.sequence.wrapping_add(1),
            flags,
            window: 64_240,
            ..wire::Tcp::default()
        }),
    };
    vec![segment(TcpFlags::ACK), segment(TcpFlags::RST.with(TcpFlags::ACK))]
}
