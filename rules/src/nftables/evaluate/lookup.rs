//! Sets and maps as tables of numbers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::action::Verdict;
use crate::cluster::Family;
use crate::nftables::{Datatype, Key, LookupKey, Side};
use crate::walk::{FastMap, Trace, Walker, bits};

/// A set or map: its keys, those of a map with what they lead to.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    /// The list that has what rules put into the set.
    pub(super) list: Arc<str>,
    /// For how many seconds that stays; for ever where there is none.
    pub(super) timeout: Option<u32>,
    pub(super) keys: FastMap<Packed, Option<Verdict>>,
}

/// The parts of a key, side by side in as few words as they have room in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Packed {
    words: SmallVec<[u128; 2]>,
    /// Bits in use of the last word.
    used: u32,
}

impl Hash for Packed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.iter().for_each(|word| state.write_u128(*word));
    }
}

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

    /// The key of an element.
    pub(super) fn of(key: &[Key]) -> Self {
        let mut packed = Self::default();
        for part in key {
            match *part {
                Key::Address(address) => packed.push(bits(address), u32::from(Family::of(address).bits())),
                Key::Protocol(protocol) => packed.push(protocol.number().into(), PROTOCOL),
                Key::Port(port) => packed.push(port.into(), PORT),
            }
        }
        packed
    }

    /// The key that a packet makes. The ports of packets that have none are zero, and their protocol is in no key.
    pub(super) fn made<T: Trace>(parts: &[LookupKey], walker: &Walker<T>) -> Self {
        let mut packed = Self::default();
        let transport = walker.packet.transport;
        for part in parts {
            let width = || u32::from(walker.packet.family().bits());
            match part {
                LookupKey::Address(Side::Source) => packed.push(bits(walker.packet.source), width()),
                LookupKey::Address(Side::Destination) => packed.push(bits(walker.packet.destination), width()),
                LookupKey::Protocol => packed.push(transport.protocol().into(), PROTOCOL),
                LookupKey::DestinationPort => {
                    packed.push(transport.ports().map_or(0, |(_, port)| port.into()), PORT);
                }
            }
        }
        packed
    }
}

const PROTOCOL: u32 = 8;
const PORT: u32 = 16;

/// The types of the key that a packet of a family makes.
pub(super) fn types(parts: &[LookupKey], family: Family) -> Vec<Datatype> {
    let of = |part: &LookupKey| match part {
        LookupKey::Address(_) => Datatype::Address(family),
        LookupKey::Protocol => Datatype::Protocol,
        LookupKey::DestinationPort => Datatype::Port,
    };
    parts.iter().map(of).collect()
}

/// Why the key of a packet is not known.
pub(super) const BLIND: &str = "`th dport` of a packet that has no ports is not modelled";

/// Whether a packet's key is not known: where a port would be, its header has something else.
pub(super) fn is_blind<T: Trace>(parts: &[LookupKey], walker: &Walker<T>) -> bool {
    let asks_port = parts.contains(&LookupKey::DestinationPort) && !parts.contains(&LookupKey::Protocol);
    asks_port && walker.packet.transport.ports().is_none()
}
