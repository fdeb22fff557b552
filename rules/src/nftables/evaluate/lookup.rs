//! Sets and maps as tables of numbers.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::action::Verdict;
use crate::cluster::Family;
use super::keys::Keys;
use crate::nftables::{self, Datatype, Key, LookupKey, Set, Side};
use crate::walk::{Field, Trace, Walker, bits};

/// A set or map: its keys, those of a map with what they lead to.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    /// The list that has what rules put into the set.
    pub(super) list: Arc<str>,
    /// For how many seconds that stays; for ever where there is none.
    pub(super) timeout: Option<u32>,
    keys: FxHashMap<Packed, Option<Verdict>>,
    /// Keys that are all addresses between two.
    ranges: Vec<(RangeInclusive<u128>, Option<Verdict>)>,
    /// All keys in order.
    sorted: Keys,
}

impl Elements {
    /// Those of a set; `lead` finds the chains of verdicts.
    pub(super) fn of(set: &Set, list: Arc<str>, lead: impl Fn(&nftables::Verdict) -> Verdict) -> Self {
        let (mut keys, mut ranges) = (FxHashMap::default(), Vec::new());
        for element in &set.elements {
            let verdict = element.verdict.as_ref().map(&lead);
            match *element.key {
                [Key::Addresses(range)] => ranges.push((bits(range.first)..=bits(range.last), verdict)),
                _ => drop(keys.insert(Packed::of(&element.key), verdict)),
            }
        }
        let sorted = Keys::of(set.elements.iter().map(|element| element.key.as_slice()));
        Self { list, timeout: set.dynamic.map(|dynamic| dynamic.timeout), keys, ranges, sorted }
    }

    /// The verdicts that keys have.
    pub(super) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.keys.values().copied().chain(self.ranges.iter().map(|(_, verdict)| *verdict)).flatten()
    }

    /// The first and last address of every key, in a set of addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (u128, u128)> {
        let single = self.keys.keys().filter_map(|key| key.words.first()).map(|address| (*address, *address));
        single.chain(self.ranges.iter().map(|(range, _)| (*range.start(), *range.end())))
    }

    /// What there is for a packet's key, if it is there.
    pub(super) fn find<T: Trace>(&self, key: &[LookupKey], walker: &Walker<T>) -> Option<Option<Verdict>> {
        self.sorted.look_up(key, walker);
        let in_range = || match key {
            [LookupKey::Address(side)] if !self.ranges.is_empty() => {
                let address = bits(side.of(&walker.packet));
                self.ranges.iter().find(|(range, _)| range.contains(&address)).map(|(_, verdict)| *verdict)
            }
            _ => None,
        };
        self.keys.get(&Packed::made(key, walker)).copied().or_else(in_range)
    }
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
                // A range is the only part of its key, and is kept separately.
                Key::Addresses(_) => {}
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
                LookupKey::Address(side) => packed.push(bits(side.of(&walker.packet)), width()),
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

/// The number of a packet that a part of a key is.
pub(super) fn part_of_packet(part: LookupKey) -> Field {
    match part {
        LookupKey::Address(side) => field(side),
        LookupKey::Protocol => Field::Protocol,
        LookupKey::DestinationPort => Field::DestinationPort,
    }
}

/// One of a packet's addresses as a number.
pub(super) fn field(side: Side) -> Field {
    match side {
        Side::Source => Field::Source,
        Side::Destination => Field::Destination,
    }
}

/// The types of the key that a packet of a family makes.
pub(super) fn types(parts: &[LookupKey], family: Family) -> Vec<Datatype> {
    let of = |part: &LookupKey| match part {
        LookupKey::Address(_) => Datatype::Address(family),
        LookupKey::Protocol => Datatype::Protocol,
        LookupKey::DestinationPort => Datatype::Port,
    };
    parts.iter().map(of).collect()
}

/// The reason why the key of a packet is unknown.
pub(super) const BLIND: &str = "`th dport` of a packet that has no ports is not modelled";

/// Whether a packet's key is not known: where a port would be, its header has something else.
pub(super) fn is_blind<T: Trace>(parts: &[LookupKey], walker: &Walker<T>) -> bool {
    let asks_port = parts.contains(&LookupKey::DestinationPort) && !parts.contains(&LookupKey::Protocol);
    asks_port && walker.ports().is_none()
}
