//! Sorted keys of a set, part by part, for lookups by sets of packets.
//!
//! Protocols and ports come before addresses, whatever their order in the set: keys contain few ports, so packets to other ports need not
//! be split by address.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use smallvec::SmallVec;

use super::key::{Key, LookupKey};
use crate::walk::{Field, Trace, Walker, bits};

/// The keys of a set, sorted at the first lookup by a set of packets.
#[derive(Debug, Clone, Default)]
pub(super) struct SortedKeys {
    listed: Vec<Vec<(u128, u128)>>,
    /// Whether keys have verdicts.
    is_map: bool,
    sorted: OnceLock<Level>,
}

/// The parts of a key, as ranges.
type Parts = [(u128, u128)];

/// One part of keys: its ranges, each with the parts that follow.
#[derive(Debug, Clone, Default)]
struct Level {
    ranges: Vec<(u128, u128)>,
    next: Vec<Level>,
}

impl SortedKeys {
    /// Adds a key, before any lookup.
    pub(super) fn add(&mut self, key: &[Key], leads: bool) {
        let mut parts: Vec<&Key> = key.iter().collect();
        parts.sort_by_key(|part| match part {
            Key::Protocol(_) => 0,
            Key::Port(_) => 1,
            Key::Address(_) | Key::Addresses(_) => 2,
        });
        self.listed.push(parts.into_iter().map(numbers).collect());
        self.is_map |= leads;
    }

    /// Reports to the walk which keys the packet's key is compared with.
    pub(super) fn look_up<T: Trace>(&self, parts: &[LookupKey], walker: &Walker<T>) {
        if !parts.iter().any(|part| is_open(*part, walker)) {
            return;
        }
        let mut level =
            self.sorted.get_or_init(|| Level::of(&self.listed.iter().map(Vec::as_slice).collect::<Vec<_>>()));
        let mut ordered: SmallVec<[LookupKey; 4]> = parts.iter().copied().collect();
        ordered.sort_by_key(|part| match part {
            LookupKey::Protocol => 0,
            LookupKey::DestinationPort => 1,
            LookupKey::Address(_) => 2,
        });
        for (position, part) in ordered.iter().enumerate() {
            let field = part.field();
            if field == Field::DestinationPort && walker.ports().is_none() {
                // No key contains a protocol without ports.
                return;
            }
            let value = field.of(&walker.packet);
            if !self.is_map && position + 1 == ordered.len() {
                // In a set only membership matters, not the matching key.
                walker.trace.asked(field, value, || level.ranges.iter().copied().collect());
                return;
            }
            walker.trace.looked_up(field, value, || &level.ranges);
            match level.find(value) {
                Some(next) => level = next,
                None => return,
            }
        }
    }
}

fn is_open<T: Trace>(part: LookupKey, walker: &Walker<T>) -> bool {
    let field = part.field();
    walker.trace.is_open(field, field.of(&walker.packet))
}

fn numbers(key: &Key) -> (u128, u128) {
    let one = |number: u128| (number, number);
    match *key {
        Key::Address(address) => one(bits(address)),
        Key::Addresses(range) => (bits(range.first), bits(range.last)),
        Key::Protocol(protocol) => one(protocol.number().into()),
        Key::Port(port) => one(port.into()),
    }
}

impl Level {
    /// Sorts keys by their first part, and recursively by the rest. Ranges of a set do not overlap.
    fn of(keys: &[&[(u128, u128)]]) -> Self {
        let mut parts: BTreeMap<(u128, u128), Vec<&Parts>> = BTreeMap::new();
        for key in keys {
            if let [first, rest @ ..] = key {
                parts.entry(*first).or_default().push(rest);
            }
        }
        let next = parts.values().map(|rest| Self::of(rest)).collect();
        Self { ranges: parts.into_keys().collect(), next }
    }

    fn find(&self, value: u128) -> Option<&Self> {
        let at = self.ranges.partition_point(|(_, last)| *last < value);
        let found = self.ranges.get(at).filter(|(first, _)| *first <= value);
        found.map(|_| &self.next[at])
    }
}
