//! The conntrack entry of a packet, and its translation.
//!
//! As in the kernel, an entry has two tuples: that of the first packet, and that of replies. A translation is a reply tuple that is not the
//! reverse of the original one (`nf_nat_core.c`).

use std::net::IpAddr;

use smallvec::SmallVec;

use super::field::Field;
use super::hook::Hook;
use super::narrowing::Narrowing;
use super::packet::{Packet, Transport};
use super::tuple::Tuple;

/// A conntrack entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The tuple of the first packet, as it arrived.
    pub original: Tuple,
    /// The tuple of replies, as they arrive.
    pub reply: Tuple,
    /// Whether the destination is settled: the nat rules of PREROUTING or OUTPUT are not evaluated again.
    pub destination_settled: bool,
    /// Whether the source is settled: the nat rules of INPUT or POSTROUTING are not evaluated again.
    pub source_settled: bool,
    /// The connection's mark.
    pub mark: u32,
}

impl Connection {
    /// Creates an entry with nothing settled.
    pub fn new(original: Tuple) -> Self {
        Self { original, reply: original.reversed(), destination_settled: false, source_settled: false, mark: 0 }
    }

    /// Returns whether the destination is translated (`IPS_DST_NAT`).
    pub(crate) fn is_dnat(&self) -> bool {
        (self.reply.source, self.reply.source_port) != (self.original.destination, self.original.destination_port)
    }

    /// Returns whether the source is translated (`IPS_SRC_NAT`).
    pub(crate) fn is_snat(&self) -> bool {
        (self.reply.destination, self.reply.destination_port) != (self.original.source, self.original.source_port)
    }

    /// Replaces one source address with another, wherever it occurs.
    pub fn with_source(&mut self, from: IpAddr, to: IpAddr) {
        let ends = [&mut self.original.source, &mut self.reply.destination];
        ends.into_iter().filter(|end| **end == from).for_each(|end| *end = to);
    }

    /// Settles the destination of the connection.
    pub(crate) fn bind_destination(&mut self, address: IpAddr, port: u16) {
        (self.reply.source, self.reply.source_port) = (address, port);
        self.destination_settled = true;
    }

    /// Settles the source of the connection.
    pub(crate) fn bind_source(&mut self, address: IpAddr, port: u16) {
        (self.reply.destination, self.reply.destination_port) = (address, port);
        self.source_settled = true;
    }

    /// Rewrites a packet of the connection as the kernel does at a hook (`nf_nat_packet`): its destination in
    /// PREROUTING and OUTPUT, its source in INPUT and POSTROUTING. Of ICMP errors, only the outer addresses are modelled here; the kernel
    /// translates the embedded packet too.
    pub(crate) fn translate(&self, direction: Direction, hook: Hook, packet: &mut Packet) {
        let (other, destination_bound, source_bound) = match direction {
            Direction::Original => (&self.reply, self.is_dnat(), self.is_snat()),
            Direction::Reply => (&self.original, self.is_snat(), self.is_dnat()),
        };
        let with_ports = !packet.transport.is_icmp_error();
        if hook.translates_destination() && destination_bound {
            packet.destination = other.source;
            if with_ports {
                packet.transport.set_destination_port(other.source_port);
            }
        }
        if hook.translates_source() && source_bound {
            packet.source = other.destination;
            if with_ports {
                packet.transport.set_source_port(other.destination_port);
            }
        }
    }
}

/// The direction of a packet in its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The direction of the first packet.
    Original,
    /// The opposite direction.
    Reply,
}

/// The conntrack state of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No reply was seen yet.
    New,
    /// Packets in both directions were seen.
    Established,
    /// The packet is an ICMP error about the connection, or opens one that the connection expects.
    Related,
}

/// The result of a conntrack lookup for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tracking {
    /// The packet belongs to no connection and cannot open one: `INVALID`.
    Invalid,
    /// The packet is exempt from tracking: `UNTRACKED`.
    Untracked,
    /// The packet belongs to a connection.
    Tracked(Tracked),
}

/// A packet's place in its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tracked {
    /// The connection.
    pub connection: Connection,
    /// The direction of the packet.
    pub direction: Direction,
    /// Its state.
    pub state: State,
    /// Whether the packet had its connection before PREROUTING or OUTPUT, as packets have that a machine sends to itself and that re-enter
    /// through `lo`. For others, the lookup happens between `raw` and `mangle`, and rules in `raw` see the packet as `INVALID`.
    pub attached: bool,
}

impl Tracking {
    /// Returns the state for the first packet of a connection, at PREROUTING or OUTPUT.
    pub fn first(packet: &Packet) -> Self {
        let connection = Connection::new(packet.tuple());
        Self::Tracked(Tracked { connection, direction: Direction::Original, state: State::New, attached: false })
    }

    /// Returns the state for a packet without a known connection. Not every packet opens one: of TCP, a SYN does, and a packet that may
    /// belong to a connection from before a reboot (`nf_conntrack_tcp_loose`); of ICMP, a request.
    ///
    /// `tcp_new`, `nf_conntrack_icmp_packet`, `icmpv6_new`, `nf_conntrack_icmpv6_error`.
    pub fn unknown(packet: &Packet, narrowing: Option<&Narrowing>) -> Self {
        let among = |field: Field, ranges: &[(u128, u128)]| {
            let value = field.of(packet);
            narrowing.map_or_else(
                || ranges.iter().any(|(first, last)| (*first..=*last).contains(&value)),
                |narrowing| narrowing.ask_ranges(field, value, ranges),
            )
        };
        let is_protocol = |number: u128| among(Field::Protocol, &[(number, number)]);
        let opens = || among(Field::Flags, &Transport::NEW_FLAGS.map(|flags| (flags.into(), flags.into())));
        let of_types = |kinds: &[u128]| {
            let ranges: SmallVec<[_; 8]> = kinds.iter().map(|kind| (kind << 8, kind << 8 | 0xff)).collect();
            among(Field::Icmp, &ranges)
        };
        let (is_new, is_untracked) = match packet.transport {
            Transport::Tcp { .. } => (is_protocol(6) && opens(), false),
            Transport::Icmp { v6: false, .. } => (is_protocol(1) && of_types(&[8, 13, 15, 17]), false),
            Transport::Icmp { v6: true, .. } => {
                let is_untracked = is_protocol(58) && of_types(&[130, 131, 132, 133, 134, 135, 136, 143]);
                (!is_untracked && of_types(&[128, 139]), is_untracked)
            }
            Transport::Udp { .. } | Transport::Sctp { .. } | Transport::Other(_) => {
                let icmp = if packet.destination.is_ipv6() { 58 } else { 1 };
                among(Field::Protocol, &[(6, 6), (icmp, icmp)]);
                (true, false)
            }
        };
        match (is_new, is_untracked) {
            (true, _) => Self::first(packet),
            (false, true) => Self::Untracked,
            (false, false) => Self::Invalid,
        }
    }

    /// Returns the state for a later packet of a connection, with everything settled.
    pub fn established(connection: Connection, direction: Direction) -> Self {
        let connection = Connection { destination_settled: true, source_settled: true, ..connection };
        Self::Tracked(Tracked { connection, direction, state: State::Established, attached: false })
    }

    /// Returns the connection, if the packet has one.
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Tracked(tracked) => Some(&tracked.connection),
            Self::Invalid | Self::Untracked => None,
        }
    }
}

/// The source NAT that a rule requests for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceNat {
    /// The address; `None` is `MASQUERADE`: the address of the output interface that the kernel prefers towards the next hop
    /// (`inet_select_addr` in `nf_nat_masquerade.c`).
    pub address: Option<IpAddr>,
    /// The lowest port that may be chosen.
    pub first_port: u16,
    /// The highest.
    pub last_port: u16,
}

impl SourceNat {
    /// Returns whether a port may be chosen.
    pub fn allows(&self, port: u16) -> bool {
        (self.first_port..=self.last_port).contains(&port)
    }

    /// Returns a possible port. If there are several, a random one is hardly ever the original: then the next one is returned.
    pub fn choose_port(&self, present: u16) -> u16 {
        let next = present.saturating_add(u16::from(self.first_port < self.last_port));
        if self.allows(next) { next } else { self.first_port }
    }
}
