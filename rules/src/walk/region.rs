//! Sets of packets.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use super::address::address_from_bits;
use super::field::Field;
use super::intervals::Intervals;
use super::packet::{Packet, Transport};
use crate::cluster::Family;

/// A set of first packets: for every field, its possible values, independent of the other fields. Fields that a packet's protocol does not
/// have are ignored. It is cheap to clone: regions share common parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    family: Family,
    fields: [Arc<Intervals>; Field::ALL.len()],
}

impl Region {
    /// Returns every packet of a family.
    pub fn all(family: Family) -> Self {
        let fields = Field::ALL.map(|field| Arc::new(Intervals::between(0, highest(field, family))));
        Self { family, fields }
    }

    /// Returns the family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the packets with certain values in a field.
    #[must_use]
    pub fn with(&self, field: Field, numbers: Intervals) -> Self {
        let mut region = self.clone();
        region.fields[field as usize] = Arc::new(numbers);
        region
    }

    /// Returns the packets whose field is among some numbers.
    #[must_use]
    pub fn among(&self, field: Field, numbers: &Intervals) -> Self {
        self.with(field, self[field].and(numbers))
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.fields.iter().any(|numbers| numbers.is_empty())
    }

    /// Returns whether it contains a packet. Interfaces and mark are ignored.
    pub fn contains(&self, packet: &Packet) -> bool {
        packet.family() == self.family
            && Field::ALL
                .iter()
                .filter(|field| has(packet, **field))
                .all(|field| self[*field].contains(field.of(packet)))
    }

    /// Returns one of its packets: for each field, the value of `like` if possible, otherwise the lowest; for addresses, the one after the
    /// lowest if that may be a network address. `None` if the region is empty.
    pub fn witness(&self, like: &Packet) -> Option<Packet> {
        let number = |field: Field| {
            let wanted = field.of(like);
            if self[field].contains(wanted) {
                return Some(wanted);
            }
            let first = self[field].first()?;
            let is_network = matches!(field, Field::Source | Field::Destination) && first.is_multiple_of(256);
            Some(if is_network && self[field].contains(first + 1) { first + 1 } else { first })
        };
        let [protocol, source, destination, source_port, destination_port, flags, icmp] = Field::ALL.map(number);
        let (source_port, destination_port) = (source_port? as u16, destination_port? as u16);
        let flags = flags? as u8;
        let (kind, code) = ((icmp? >> 8) as u8, icmp? as u8);
        let transport = match (protocol? as u8, self.family) {
            (6, _) => Transport::Tcp { source: source_port, destination: destination_port, flags },
            (17, _) => Transport::Udp { source: source_port, destination: destination_port },
            (132, _) => Transport::Sctp { source: source_port, destination: destination_port },
            (1, Family::Ipv4) => Transport::Icmp { v6: false, kind, code, id: source_port },
            (58, Family::Ipv6) => Transport::Icmp { v6: true, kind, code, id: source_port },
            (other, _) => Transport::Other(other),
        };
        Some(Packet::new(
            address_from_bits(source?, self.family),
            address_from_bits(destination?, self.family),
            transport,
        ))
    }
}

impl Index<Field> for Region {
    type Output = Intervals;

    fn index(&self, field: Field) -> &Intervals {
        &self.fields[field as usize]
    }
}

/// Returns the highest value of a field.
pub(super) fn highest(field: Field, family: Family) -> u128 {
    match field {
        Field::Protocol => u8::MAX.into(),
        Field::Source | Field::Destination => u128::MAX >> (128 - u32::from(family.bits())),
        Field::SourcePort | Field::DestinationPort | Field::Icmp => u16::MAX.into(),
        Field::Flags => Field::FLAGS.into(),
    }
}

/// Returns whether a packet has a field.
fn has(packet: &Packet, field: Field) -> bool {
    let transport = packet.transport;
    match field {
        Field::Protocol | Field::Source | Field::Destination => true,
        Field::SourcePort => transport.ports().is_some() || matches!(transport, Transport::Icmp { .. }),
        Field::DestinationPort => transport.ports().is_some(),
        Field::Flags => matches!(transport, Transport::Tcp { .. }),
        Field::Icmp => matches!(transport, Transport::Icmp { .. }),
    }
}

/// Number of intervals of a field that are printed.
const MAX_LISTED: usize = 3;

impl fmt::Display for Region {
    /// `tcp from 10.0.0.1 to 10.96.0.10 port 80`: fields with any value are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        for (field, name) in NAMES {
            let numbers = &self[field];
            if *numbers == Intervals::between(0, highest(field, self.family)) || !self.is_of(field) {
                continue;
            }
            let list: Vec<String> =
                numbers.ranges().iter().take(MAX_LISTED).map(|range| self.words(field, *range)).collect();
            let more = numbers.ranges().len().saturating_sub(MAX_LISTED);
            let more = if more == 0 { String::new() } else { format!(" and {more} more ranges") };
            words.push(format!("{name}{}{more}", list.join(", ")));
        }
        f.write_str(if words.is_empty() { "any packet" } else { "" })?;
        f.write_str(&words.join(" "))
    }
}

const NAMES: [(Field, &str); 7] = [
    (Field::Protocol, ""),
    (Field::Source, "from "),
    (Field::SourcePort, "source port "),
    (Field::Destination, "to "),
    (Field::DestinationPort, "port "),
    (Field::Flags, "flags "),
    (Field::Icmp, "type "),
];

impl Region {
    /// Returns whether one of its packets has a field.
    fn is_of(&self, field: Field) -> bool {
        let any = |numbers: &[u128]| numbers.iter().any(|number| self[Field::Protocol].contains(*number));
        match field {
            Field::Protocol | Field::Source | Field::Destination => true,
            Field::SourcePort => any(&[6, 17, 132, 1, 58]),
            Field::DestinationPort => any(&[6, 17, 132]),
            Field::Flags => any(&[6]),
            Field::Icmp => any(&[1, 58]),
        }
    }

    fn words(&self, field: Field, (first, last): (u128, u128)) -> String {
        let one = |number: u128| match field {
            Field::Source | Field::Destination => address_from_bits(number, self.family).to_string(),
            Field::Protocol => match number {
                6 => "tcp".to_owned(),
                17 => "udp".to_owned(),
                132 => "sctp".to_owned(),
                1 => "icmp".to_owned(),
                58 => "icmpv6".to_owned(),
                other => format!("protocol {other}"),
            },
            Field::Icmp => format!("{}/{}", number >> 8, number & 0xff),
            Field::Flags => {
                let is_set = |(_, bit): &(&str, u8)| number & u128::from(*bit) != 0;
                let set: Vec<&str> = Transport::FLAGS.into_iter().filter(is_set).map(|(name, _)| name).collect();
                if set.is_empty() { "none".to_owned() } else { set.join("+") }
            }
            Field::SourcePort | Field::DestinationPort => number.to_string(),
        };
        if first == last { one(first) } else { format!("{}-{}", one(first), one(last)) }
    }
}
