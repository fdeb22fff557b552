//! The state of one flow while its packets are in flight.

use std::time::Duration;

use super::tap::Passing;
use crate::observation::{Delivery, FlowObservation, ObservedOutcome, Sighting};
use crate::text::is_in_cluster;
use crate::topology::NetnsId;
use crate::wire::{self, Content, Flow, Packet, Rejection, Tag, TcpFlags, Transport};

/// The state of a followed flow.
pub(super) struct Watch {
    flow: Flow,
    /// The key of its tag.
    key: u32,
    via: Option<NetnsId>,
    /// The flags of its packet, if that is a segment that opens no connection.
    segment: Option<TcpFlags>,
    /// The place of the sender.
    from: String,
    deliveries: Vec<Delivery>,
    /// The time stamp in the kernel's SYN that arrived first.
    first_stamp: Option<u32>,
    rejection: Option<Rejection>,
    unsent: Option<Rejection>,
    reply: Option<Packet>,
    path: Vec<(Duration, Packet, Sighting)>,
}

impl Watch {
    /// The initial state of a flow that is sent from a place; `via` is the node that its packets are sent to.
    pub(super) fn new(flow: Flow, tag: Tag, from: &str, via: Option<NetnsId>) -> Self {
        Self {
            flow,
            key: tag.key(),
            via,
            segment: None,
            from: from.to_owned(),
            deliveries: Vec::new(),
            first_stamp: None,
            rejection: None,
            unsent: None,
            reply: None,
            path: Vec::new(),
        }
    }

    /// Sets the TCP flags of the segment that the flow sends.
    pub(super) fn with_segment(self, segment: Option<TcpFlags>) -> Self {
        Self { segment, ..self }
    }

    /// The node that the sender's packets are sent to.
    pub(super) fn via(&self) -> Option<NetnsId> {
        self.via
    }

    /// Records a packet that passed an interface.
    pub(super) fn saw(&mut self, passing: &Passing<'_>) {
        let sighting = Sighting {
            place: passing.place.to_owned(),
            interface: passing.interface.to_owned(),
            direction: passing.direction,
            flow: passing.packet.flow(),
            packet: passing.packet.to_string(),
        };
        self.path.push((passing.time, passing.packet.clone(), sighting));
    }

    /// Records a packet that was delivered in this many fragments; `None` if a kernel reassembled it.
    pub(super) fn came_out(&mut self, at: &str, packet: &Packet, fragments: Option<u16>) {
        let Some(flow) = packet.flow().filter(|_| self.is_probe(packet) && !self.is_repetition(packet)) else { return };
        self.deliveries.push(Delivery {
            at: at.to_owned(),
            source: flow.source,
            destination: flow.destination,
            fragments,
        });
    }

    /// Whether a packet is a retransmission: a kernel repeats a SYN that is not answered within a second. Unlike a
    /// packet duplicated by rules, it has a timestamp of its own.
    fn is_repetition(&mut self, packet: &Packet) -> bool {
        let Transport::Tcp(tcp) = &packet.transport else { return false };
        let stamp = tcp.options.timestamps.map(|(value, _)| value);
        self.first_stamp = self.first_stamp.or(stamp);
        stamp != self.first_stamp
    }

    /// Records a packet that reached the sender, and returns the sender's response, if any.
    pub(super) fn came_back(&mut self, packet: &Packet) -> Vec<Packet> {
        if self.reply.is_none() && self.rejection.is_none() {
            self.rejection = match self.segment {
                Some(_) => wire::rejection_of_segment(packet, &self.flow),
                None => wire::rejection(packet, &self.flow),
            };
        }
        if self.reply.is_some() || !self.is_reply(packet) {
            return Vec::new();
        }
        self.reply = Some(packet.clone());
        if self.segment.is_some() { Vec::new() } else { hang_up(packet) }
    }

    /// Whether a packet is addressed to the sender's own port.
    pub(super) fn is_for_sender(&self, packet: &Packet) -> bool {
        let quoted = match &packet.transport {
            Transport::Icmp(wire::Icmp::Error(error)) => error.quoted.as_ref().and_then(|quoted| quoted.flow()),
            _ => None,
        };
        quoted.is_some_and(|flow| flow.source == self.flow.source && packet.destination == self.flow.source.ip())
            || packet.flow().is_some_and(|flow| flow.destination == self.flow.source)
    }

    /// Records that the sender's kernel did not send the first packet, with the reason.
    pub(super) fn unsent(&mut self, rejection: Rejection) {
        self.unsent = Some(rejection);
    }

    /// Whether an answer or a rejection has reached the sender.
    pub(super) fn is_decided(&self) -> bool {
        self.reply.is_some() || self.rejection.is_some() || self.unsent.is_some()
    }

    /// The key that all its packets carry.
    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Whether it is the first packet of the flow, wherever it is and however its addresses were translated.
    fn is_probe(&self, packet: &Packet) -> bool {
        let is_it = match (self.segment, &packet.transport) {
            (Some(flags), Transport::Tcp(tcp)) => tcp.flags.are(flags) && !self.is_for_sender(packet),
            (Some(_), _) => false,
            (None, _) => packet.opens() || matches!(packet.content(), Content::Request(_)),
        };
        packet.key() == Some(self.key) && is_it
    }

    fn is_reply(&self, packet: &Packet) -> bool {
        packet.key() == Some(self.key)
            && self.is_answer(packet)
            && packet.flow().is_some_and(|flow| flow.destination == self.flow.source)
    }

    fn is_answer(&self, packet: &Packet) -> bool {
        match (self.segment, &packet.transport) {
            (Some(_), Transport::Tcp(tcp)) => !tcp.flags.contains(TcpFlags::RST),
            (Some(_), _) => false,
            (None, _) => packet.accepts() || matches!(packet.content(), Content::Answer(_)),
        }
    }

    /// Whether it is the first packet of the flow, in a tunnel or not.
    fn has_probe(&self, packet: &Packet) -> bool {
        match &packet.transport {
            Transport::Vxlan(tunnel) => tunnel.inner.as_ref().is_some_and(|frame| self.is_probe(&frame.packet)),
            _ => self.is_probe(packet),
        }
    }

    /// The outcome if the packet was not delivered.
    fn dropped(&self) -> ObservedOutcome {
        let passed = self.path.iter().filter(|(_, packet, _)| self.has_probe(packet));
        let last = passed.clone().max_by_key(|(time, ..)| *time);
        let at = last.map_or_else(|| self.from.clone(), |(.., sighting)| sighting.place.clone());
        ObservedOutcome::Dropped {
            at,
            left_cluster: passed.into_iter().any(|(.., sighting)| !is_in_cluster(&sighting.place)),
        }
    }

    /// The result, once nothing is in flight.
    pub(super) fn finish(self) -> FlowObservation {
        let dropped = self.dropped();
        let (mut deliveries, mut path) = (self.deliveries, self.path);
        if self.reply.is_some() && self.segment.is_none() {
            path.retain(|(_, packet, _)| !is_closing(packet));
        }
        path.sort_by_key(|(time, ..)| *time);
        let rejected = if deliveries.is_empty() { self.rejection.or(self.unsent) } else { self.rejection };
        let (outcome, contradiction) = match (deliveries.len(), rejected) {
            (0, Some(rejection)) => (ObservedOutcome::Rejected(rejection), None),
            (0, None) => (dropped, None),
            (1, rejection) => (ObservedOutcome::Delivered(deliveries.remove(0)), rejection),
            (_, rejection) => (ObservedOutcome::Duplicated(deliveries), rejection),
        };
        FlowObservation {
            protocol: self.flow.protocol,
            source: self.flow.source,
            destination: self.flow.destination,
            outcome,
            contradiction,
            reply: self.reply.and_then(|reply| reply.flow()).map(|flow| flow.source),
            path: path.into_iter().map(|(.., sighting)| sighting).collect(),
        }
    }
}

/// Whether a segment confirms or ends an open connection, which is irrelevant for an answered flow.
fn is_closing(packet: &Packet) -> bool {
    let innermost = match &packet.transport {
        Transport::Vxlan(tunnel) => tunnel.inner.as_ref().map(|frame| &frame.packet.transport),
        transport => Some(transport),
    };
    matches!(innermost, Some(Transport::Tcp(tcp)) if !tcp.flags.contains(TcpFlags::SYN))
}

/// The response of a sender whose connection is open: it confirms and aborts, so that conntrack considers the flow closed and a later one
/// from the same port new.
fn hang_up(reply: &Packet) -> Vec<Packet> {
    let Transport::Tcp(tcp) = &reply.transport else { return Vec::new() };
    let segment = |flags| Packet {
        source: reply.destination,
        destination: reply.source,
        ttl: 64,
        may_fragment: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow::tcp("172.18.0.2:33000".parse().unwrap(), "10.96.0.1:80".parse().unwrap())
    }

    /// A SYN as a kernel sends it: with a time stamp of its own.
    fn kernel_syn(stamp: u32) -> Packet {
        let Packet { transport: Transport::Tcp(tcp), source, destination, ttl, may_fragment } =
            wire::probe(&flow(), Tag::ZERO)
        else {
            panic!("a TCP probe is a TCP segment");
        };
        let options = wire::TcpOptions { timestamps: Some((stamp, 0)), ..tcp.options };
        // ECE and CWR: the kernel asks for congestion notification.
        let flags = TcpFlags(TcpFlags::SYN.0 | 0xc0);
        Packet {
            source,
            destination,
            ttl,
            may_fragment,
            transport: Transport::Tcp(wire::Tcp { flags, options, ..tcp }),
        }
    }

    fn watch(packets: &[Packet]) -> ObservedOutcome {
        let mut watch = Watch::new(flow(), Tag::ZERO, "node/worker", None);
        packets.iter().for_each(|packet| watch.came_out("pod/web", packet, Some(1)));
        watch.finish().outcome
    }

    #[test]
    fn a_syn_that_a_kernel_repeats_is_one_delivery() {
        let ObservedOutcome::Delivered(delivery) = watch(&[kernel_syn(1000), kernel_syn(2024)]) else {
            panic!("a repeated SYN is taken for a duplicated one");
        };
        assert_eq!((delivery.source, delivery.destination), (flow().source, flow().destination));
    }

    #[test]
    fn a_syn_that_rules_double_is_two_deliveries() {
        assert!(
            matches!(watch(&[kernel_syn(1000), kernel_syn(1000)]), ObservedOutcome::Duplicated(two) if two.len() == 2)
        );
    }
}
