//! What rules see of a packet.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::interface::Interface;
use super::tuple::Tuple;
use crate::cluster::{Family, Protocol};

/// The classes of source ports of which the kernel replaces each by one of the same (`nf_nat_l4proto_unique_tuple`).
pub(super) const SOURCE_PORT_CLASSES: [RangeInclusive<u16>; 3] = [0..=511, 512..=1023, 1024..=u16::MAX];

/// A packet at a hook. It is not a fragment, and its checksums are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// What follows the IP header.
    pub transport: Transport,
    /// The interface that it came in by; none for packets of the machine itself.
    ///
    /// In POSTROUTING kernels from 5.9 on still know it (`ip_output` hands it on), older ones do not.
    pub input: Option<Interface>,
    /// The interface that it leaves by, from routing on. In OUTPUT it is the one of the first routing throughout: a new
    /// route that a mark or translation brings does not change what later tables see (`nf_hook_state`).
    pub output: Option<Interface>,
    /// The ports of a bridge that it crosses, if a bridge hands its packets to iptables.
    pub bridge: Option<BridgePorts>,
    /// The mark.
    pub mark: u32,
}

impl Packet {
    /// A packet without interfaces and mark.
    pub fn new(source: IpAddr, destination: IpAddr, transport: Transport) -> Self {
        Self { source, destination, transport, input: None, output: None, bridge: None, mark: 0 }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.destination)
    }

    /// Its addresses and ports, as the connection table has them.
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

/// Where a bridged packet came from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BridgePorts {
    /// The port that it came in by.
    pub input: Option<Interface>,
    /// The port that it leaves by; known in FORWARD and POSTROUTING of packets that stay on the bridge.
    pub output: Option<Interface>,
    /// Whether it stays on the bridge, rather than being routed.
    pub bridged: bool,
}

/// What follows the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp {
        /// The source port.
        source: u16,
        /// The destination port.
        destination: u16,
        /// The flags as the header's byte has them (FIN is 1, URG 32).
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
        /// The identifier of an echo; 0 for others.
        id: u16,
    },
    /// Another protocol, by its number.
    Other(u8),
}

impl Transport {
    /// The flag that opens a TCP connection.
    pub const SYN: u8 = 2;

    /// The flags of TCP with which a segment opens an entry in the connection table: SYN, or ACK as in the middle of a connection, each
    /// with or without PSH and URG.
    pub(crate) const NEW_FLAGS: [u8; 8] = [2, 10, 16, 24, 34, 42, 48, 56];

    /// The first packet of a connection.
    pub fn opening(protocol: Protocol, source: u16, destination: u16) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp { source, destination, flags: Self::SYN },
            Protocol::Udp => Self::Udp { source, destination },
            Protocol::Sctp => Self::Sctp { source, destination },
        }
    }

    /// The protocol's number in the IP header.
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

    /// Source and destination port, of protocols that have them.
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

    /// Whether it is an ICMP error, which carries the start of another packet.
    pub(crate) fn is_icmp_error(self) -> bool {
        match self {
            Self::Icmp { v6: false, kind, .. } => matches!(kind, 3 | 4 | 5 | 11 | 12),
            Self::Icmp { v6: true, kind, .. } => kind < 128,
            _ => false,
        }
    }
}
