//! The fields of a packet's headers that rules may compare, as numbers.

use super::address::bits;
use super::packet::{Packet, Transport};

/// A header field of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The protocol number.
    Protocol,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The source port; for ICMP, the identifier.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The six TCP flags, from FIN, which is 1, to URG, which is 32.
    Flags,
    /// The ICMP type times 256, plus the code.
    Icmp,
}

impl Field {
    /// All fields, in the order of a region's.
    pub const ALL: [Self; 7] = [
        Self::Protocol,
        Self::Source,
        Self::Destination,
        Self::SourcePort,
        Self::DestinationPort,
        Self::Flags,
        Self::Icmp,
    ];

    /// The modelled bits of TCP's flag byte.
    pub(crate) const FLAGS: u8 = 0x3f;

    /// Returns the value of the field in a packet; zero if its protocol has no such field.
    pub fn of(self, packet: &Packet) -> u128 {
        let ports = || packet.tuple();
        match self {
            Self::Protocol => packet.transport.protocol().into(),
            Self::Source => bits(packet.source),
            Self::Destination => bits(packet.destination),
            Self::SourcePort => ports().source_port.into(),
            Self::DestinationPort => packet.transport.ports().map_or(0, |(_, port)| port.into()),
            Self::Flags => match packet.transport {
                Transport::Tcp { flags, .. } => (flags & Self::FLAGS).into(),
                _ => 0,
            },
            Self::Icmp => match packet.transport {
                Transport::Icmp { kind, code, .. } => u128::from(kind) << 8 | u128::from(code),
                _ => 0,
            },
        }
    }

    /// Returns the corresponding field of a reply.
    #[must_use]
    pub(crate) fn turned(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
            Self::SourcePort => Self::DestinationPort,
            Self::DestinationPort => Self::SourcePort,
            other => other,
        }
    }
}
