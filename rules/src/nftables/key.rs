//! Keys of sets and maps: their types, keys of elements, and keys of packets.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use smallvec::SmallVec;

use super::ranges::AddressRange;
use super::text::{Line, family, join};
use crate::cluster::{Family, Protocol, ProtocolNumber};
use crate::walk::{Field, Packet, Trace, Walker, bits};

/// The type of one part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Datatype {
    /// `ipv4_addr` or `ipv6_addr`.
    Address(Family),
    /// `inet_proto`.
    Protocol,
    /// `inet_service`.
    Port,
}

impl Datatype {
    /// Returns nft's keyword.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Address(Family::Ipv4) => "ipv4_addr",
            Self::Address(Family::Ipv6) => "ipv6_addr",
            Self::Protocol => "inet_proto",
            Self::Port => "inet_service",
        }
    }

    /// Returns the type of a name in nft; nothing if kube-proxy does not use it.
    pub(super) fn of(name: &str) -> Option<Self> {
        let all = [Self::Address(Family::Ipv4), Self::Address(Family::Ipv6), Self::Protocol, Self::Port];
        all.into_iter().find(|datatype| datatype.as_str() == name)
    }
}

/// One part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// An address.
    Address(IpAddr),
    /// A range of addresses, in an interval set.
    Addresses(AddressRange),
    /// A protocol.
    Protocol(Protocol),
    /// A port.
    Port(u16),
}

impl Key {
    /// Parses a word as a part of this type.
    pub(super) fn parse(datatype: Datatype, word: &str) -> Option<Self> {
        match datatype {
            Datatype::Address(family) => {
                let range = AddressRange::parse(word).filter(|range| Family::of(range.first) == family)?;
                Some(if range.first == range.last { Self::Address(range.first) } else { Self::Addresses(range) })
            }
            Datatype::Protocol => ProtocolNumber::parse(word)?.transport().map(Self::Protocol),
            Datatype::Port => word.parse().ok().map(Self::Port),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Addresses(range) => range.fmt(f),
            Self::Protocol(protocol) => protocol.fmt(f),
            Self::Port(port) => port.fmt(f),
        }
    }
}

/// One of a packet's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// `saddr`.
    Source,
    /// `daddr`.
    Destination,
}

impl Side {
    /// Returns nft's keyword.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Source => "saddr",
            Self::Destination => "daddr",
        }
    }

    /// Parses nft's keyword.
    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Source, Self::Destination].into_iter().find(|side| side.as_str() == word)
    }

    /// `from` or `to`.
    pub(super) fn explain(self) -> &'static str {
        match self {
            Self::Source => "from",
            Self::Destination => "to",
        }
    }

    /// Returns the field of the address.
    pub(super) fn field(self) -> Field {
        match self {
            Self::Source => Field::Source,
            Self::Destination => Field::Destination,
        }
    }

    /// Returns this address of a packet.
    pub(crate) fn of(self, packet: &Packet) -> IpAddr {
        match self {
            Self::Source => packet.source,
            Self::Destination => packet.destination,
        }
    }
}

/// One part of a packet's lookup key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupKey {
    /// One of the addresses.
    Address(Side),
    /// `meta l4proto`.
    Protocol,
    /// `th dport`.
    DestinationPort,
}

impl LookupKey {
    /// `ip daddr . meta l4proto . th dport`: all parts.
    pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Vec<Self>> {
        let mut parts = Vec::new();
        loop {
            parts.push(match (line.next(), line.next()) {
                ("ip" | "ip6", field) => Self::Address(Side::parse(field)?),
                ("meta", "l4proto") => Self::Protocol,
                ("th", "dport") => Self::DestinationPort,
                _ => return None,
            });
            if !line.take(".") {
                return Some(parts);
            }
        }
    }

    /// Writes all parts, in a table of this family.
    pub(super) fn print(parts: &[Self], out: &mut String, ip: Family) {
        join(out, " . ", parts, |out, part| match part {
            Self::Address(side) => out.extend([family(ip), " ", side.as_str()]),
            Self::Protocol => out.push_str("meta l4proto"),
            Self::DestinationPort => out.push_str("th dport"),
        });
    }

    /// Describes the parts: `destination, protocol and port`.
    pub fn explain(parts: &[Self]) -> String {
        let word = |part: &Self| match part {
            Self::Address(Side::Source) => "source",
            Self::Address(Side::Destination) => "destination",
            Self::Protocol => "protocol",
            Self::DestinationPort => "port",
        };
        let words: Vec<&str> = parts.iter().map(word).collect();
        match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Returns the type of this part, in a table of this family.
    pub(super) fn datatype(self, family: Family) -> Datatype {
        match self {
            Self::Address(_) => Datatype::Address(family),
            Self::Protocol => Datatype::Protocol,
            Self::DestinationPort => Datatype::Port,
        }
    }

    /// Returns the packet field of this part.
    pub(super) fn field(self) -> Field {
        match self {
            Self::Address(side) => side.field(),
            Self::Protocol => Field::Protocol,
            Self::DestinationPort => Field::DestinationPort,
        }
    }

    /// Returns whether a packet's key is unknown, because its header has something else in place of a port.
    pub(super) fn is_blind<T: Trace>(parts: &[Self], walker: &Walker<T>) -> bool {
        let asks_port = parts.contains(&Self::DestinationPort) && !parts.contains(&Self::Protocol);
        asks_port && walker.ports().is_none()
    }
}

/// The reason why the key of a packet is unknown.
pub(super) const BLIND: &str = "`th dport` of a packet that has no ports is not modelled";

/// The parts of a key, packed into as few words as possible.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Packed {
    words: SmallVec<[u128; 2]>,
    /// The number of used bits in the last word.
    used: u32,
}

impl Hash for Packed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.iter().for_each(|word| state.write_u128(*word));
    }
}

const PROTOCOL: u32 = 8;
const PORT: u32 = 16;

impl Packed {
    fn push(&mut self, value: u128, width: u32) {
        match self.words.last_mut() {
            Some(word) if self.used + width <= u128::BITS => {
                *word = *word << width | value;
                self.used += width;
            }
            _ => {
                self.words.push(value);
                self.used = width;
            }
        }
    }

    /// Packs the key of an element.
    pub(super) fn of(key: &[Key]) -> Self {
        let mut packed = Self::default();
        for part in key {
            match *part {
                Key::Address(address) => packed.push(bits(address), u32::from(Family::of(address).bits())),
                // A range is the only part of its key, and is kept separately.
                Key::Addresses(_) => {}
                Key::Protocol(protocol) => packed.push(protocol.number().into(), PROTOCOL),
                Key::Port(port) => packed.push(port.into(), PORT),
            }
        }
        packed
    }

    /// Packs a packet's lookup key. Packets without ports have zero ports, and no key contains their protocol.
    pub(super) fn made(parts: &[LookupKey], packet: &Packet) -> Self {
        let mut packed = Self::default();
        for part in parts {
            match part {
                LookupKey::Address(side) => packed.push(bits(side.of(packet)), u32::from(packet.family().bits())),
                LookupKey::Protocol => packed.push(packet.transport.protocol().into(), PROTOCOL),
                LookupKey::DestinationPort => {
                    packed.push(packet.transport.ports().map_or(0, |(_, port)| port.into()), PORT);
                }
            }
        }
        packed
    }

    /// Returns the first word: the address, if the key is only an address.
    pub(super) fn first(&self) -> Option<u128> {
        self.words.first().copied()
    }
}
