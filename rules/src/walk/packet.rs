//! Packets as rules see them.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::interface::Interface;
use super::tuple::Tuple;
use crate::cluster::{Family, Protocol};

/// The classes of source ports: the kernel replaces a port with one of the same class (`nf_nat_l4proto_unique_tuple`).
pub(super) const SOURCE_PORT_CLASSES: [RangeInclusive<u16>; 3] = [0..=511, 512..=1023, 1024..=u16::MAX];

/// A packet at a hook. It is not a fragment, and its checksums are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// The transport header.
    pub transport: Transport,
    /// The input interface; none for locally generated packets.
    ///
    /// In POSTROUTING, kernels from 5.9 on still know it (`ip_output` passes it on), older ones do not.
    pub input: Option<Interface>,
    /// The output interface, once routed. In OUTPUT it stays the one of the first routing decision: rerouting after a changed mark or DNAT
    /// does not change what later tables see (`nf_hook_state`).
    pub output: Option<Interface>,
    /// The ports of a bridge that it crosses, if the bridge passes its packets to iptables.
    pub bridge: Option<BridgePorts>,
    /// The mark.
    pub mark: u32,
}

impl Packet {
    /// Creates a packet without interfaces and mark.
    pub fn new(source: IpAddr, destination: IpAddr, transport: Transport) -> Self {
        Self { source, destination, transport, input: None, output: None, bridge: None, mark: 0 }
    }

    /// Returns its family.
    pub fn family(&self) -> Family {
        Family::of(self.destination)
    }

    /// Returns its addresses and ports as a conntrack tuple.
    pub fn tuple(&self) -> Tuple {
        let (source_port, destination_port) = match (self.transport.ports(), self.transport) {
            (Some(ports), _) => ports,
            (None, Transport::Icmp { id, .. }) => (id, id),
            (None, _) => (0, 0),
        };
        Tuple {
            protocol: self.transport.protocol(),
            source: self.source,
            source_port,
            destination: self.destination,
            destination_port,
        }
    }
}

/// The bridge ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BridgePorts {
    /// The input port.
    pub input: Option<Interface>,
    /// The output port; known in FORWARD and POSTROUTING for packets that stay on the bridge.
    pub output: Option<Interface>,
    /// Whether the packet stays on the bridge instead of being routed.
    pub bridged: bool,
}

/// The transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
        /// The flags as in the header's byte (FIN is 1, URG 32).
        flags: u8,
    },
    /// UDP.
    Udp {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
    },
    /// SCTP.
    Sctp {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
    },
    /// ICMP, or ICMPv6 between IPv6 addresses.
    Icmp {
        /// True for ICMPv6.
        v6: bool,
        /// The type.
        kind: u8,
        /// The code.
        code: u8,
        /// The identifier of an echo; 0 for other types.
        id: u16,
    },
    /// Another protocol, by its number.
    Other(u8),
}

impl Transport {
    /// The TCP flag of a sender that has no more data.
    pub const FIN: u8 = 1;

    /// The TCP flag that opens a connection.
    pub const SYN: u8 = 2;

    /// The TCP flag that resets a connection.
    pub const RST: u8 = 4;

    /// The TCP flag of data for the application.
    pub const PSH: u8 = 8;

    /// The TCP flag of a segment within a connection.
    pub const ACK: u8 = 16;

    /// The TCP flag of urgent data.
    pub const URG: u8 = 32;

    /// The names of the TCP flags, in the order in which iptables prints them.
    pub const FLAGS: [(&str, u8); 6] = [
        ("FIN", Self::FIN),
        ("SYN", Self::SYN),
        ("RST", Self::RST),
        ("PSH", Self::PSH),
        ("ACK", Self::ACK),
        ("URG", Self::URG),
    ];

    /// The TCP flags of a segment that creates a conntrack entry: SYN, or ACK as in the middle of a connection, each with or without PSH
    /// and URG.
    pub(crate) const NEW_FLAGS: [u8; 8] = [2, 10, 16, 24, 34, 42, 48, 56];

    /// Returns the header of the first packet of a connection.
    pub fn opening(protocol: Protocol, source: u16, destination: u16) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp { source, destination, flags: Self::SYN },
            Protocol::Udp => Self::Udp { source, destination },
            Protocol::Sctp => Self::Sctp { source, destination },
        }
    }

    /// Returns the protocol number in the IP header.
    pub fn protocol(self) -> u8 {
        match self {
            Self::Tcp { .. } => 6,
            Self::Udp { .. } => 17,
            Self::Sctp { .. } => 132,
            Self::Icmp { v6: false, .. } => 1,
            Self::Icmp { v6: true, .. } => 58,
            Self::Other(number) => number,
        }
    }

    /// Returns source and destination port, if the protocol has ports.
    pub fn ports(self) -> Option<(u16, u16)> {
        match self {
            Self::Tcp { source, destination, .. }
            | Self::Udp { source, destination }
            | Self::Sctp { source, destination } => Some((source, destination)),
            Self::Icmp { .. } | Self::Other(_) => None,
        }
    }

    /// Sets the source port, or the identifier of an ICMP echo.
    pub(crate) fn set_source_port(&mut self, port: u16) {
        match self {
            Self::Tcp { source, .. } | Self::Udp { source, .. } | Self::Sctp { source, .. } => *source = port,
            Self::Icmp { id, .. } => *id = port,
            Self::Other(_) => {}
        }
    }

    /// Sets the destination port, or the identifier of an ICMP echo.
    pub(crate) fn set_destination_port(&mut self, port: u16) {
        match self {
            Self::Tcp { destination, .. } | Self::Udp { destination, .. } | Self::Sctp { destination, .. } => {
                *destination = port;
            }
            Self::Icmp { id, .. } => *id = port,
            Self::Other(_) => {}
        }
    }

    /// Returns whether it is an ICMP error, which contains the start of another packet.
    pub(crate) fn is_icmp_error(self) -> bool {
        match self {
            Self::Icmp { v6: false, kind, .. } => matches!(kind, 3 | 4 | 5 | 11 | 12),
            Self::Icmp { v6: true, kind, .. } => kind < 128,
            _ => false,
        }
    }
}
