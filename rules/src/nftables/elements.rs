//! Compiled sets and maps, as tables of numbers.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::dynamic::Dynamic;
use super::key::{BLIND, Key, LookupKey, Packed, Side};
use super::sorted_keys::SortedKeys;
use super::verdict::Verdict;
use crate::walk::{Edges, Effect, Environment, Intervals, RecentLists, Trace, Walker, bits};

/// A set or map: its keys, with verdicts in a map.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    /// The list of keys that rules added to the set.
    list: Arc<str>,
    /// The properties of a set to which rules add keys.
    dynamic: Option<Dynamic>,
    keys: FxHashMap<Packed, Option<Verdict<u32>>>,
    /// Keys that are address ranges.
    ranges: Vec<(RangeInclusive<u128>, Option<Verdict<u32>>)>,
    /// All other keys, in order.
    sorted: SortedKeys,
}

impl Elements {
    /// Creates a set without elements.
    pub(super) fn empty(list: Arc<str>, dynamic: Option<Dynamic>) -> Self {
        Self { list, dynamic, keys: FxHashMap::default(), ranges: Vec::new(), sorted: SortedKeys::default() }
    }

    /// Adds an element.
    pub(super) fn insert(&mut self, key: &[Key], verdict: Option<Verdict<u32>>) {
        self.sorted.add(key, verdict.is_some());
        match *key {
            [Key::Addresses(range)] => self.ranges.push((bits(range.first)..=bits(range.last), verdict)),
            _ => drop(self.keys.insert(Packed::of(key), verdict)),
        }
    }

    /// Returns the verdicts of keys.
    pub(super) fn verdicts(&self) -> impl Iterator<Item = Verdict<u32>> {
        self.keys.values().copied().chain(self.ranges.iter().map(|(_, verdict)| *verdict)).flatten()
    }

    /// Returns the first and last address of every key, in a set of addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (u128, u128)> {
        let single = self.keys.keys().filter_map(Packed::first).map(|address| (address, address));
        single.chain(self.ranges.iter().map(|(range, _)| (*range.start(), *range.end())))
    }

    /// Looks up a packet's key. Returns an error if the key is unknown.
    pub(super) fn find<T: Trace>(
        &self,
        key: &[LookupKey],
        walker: &Walker<T>,
    ) -> Result<Option<Option<Verdict<u32>>>, Arc<str>> {
        if LookupKey::is_blind(key, walker) {
            return Err(BLIND.into());
        }
        self.sorted.look_up(key, walker);
        let packet = &walker.packet;
        let in_range = || match key {
            [LookupKey::Address(side)] if !self.ranges.is_empty() => {
                let address = bits(side.of(packet));
                self.ranges.iter().find(|(range, _)| range.contains(&address)).map(|(_, verdict)| *verdict)
            }
            _ => None,
        };
        Ok(self.keys.get(&Packed::made(key, packet)).copied().or_else(in_range))
    }

    /// Returns whether rules added a packet's key that has not expired (`nft_set_elem_expired`). Only addresses are added to sets.
    pub(super) fn remembers<T: Trace>(&self, key: &[LookupKey], walker: &Walker<T>, at: &Environment) -> bool {
        let [LookupKey::Address(side)] = key else { return false };
        let address = side.of(&walker.packet);
        self.split_by_entries(*side, walker, &at.recent);
        let by_this_packet = |effect: &Effect| match effect {
            Effect::Add { list, address: added } => *list == self.list && *added == address,
            Effect::Remove { .. } => false,
        };
        walker.effects.iter().any(by_this_packet) || self.contains_added(address, &at.recent)
    }

    /// Splits a set of packets by the addresses that rules added earlier.
    fn split_by_entries<T: Trace>(&self, side: Side, walker: &Walker<T>, lists: &RecentLists) {
        let address = bits(side.of(&walker.packet));
        if walker.trace.is_open(side.field(), address) {
            for added in lists.addresses(&self.list) {
                walker.trace.asked(side.field(), address, || Intervals::one(added));
            }
        }
    }

    fn contains_added(&self, address: IpAddr, lists: &RecentLists) -> bool {
        let timeout = self.dynamic.and_then(|dynamic| dynamic.timeout);
        let lives = |age: &u32| timeout.is_none_or(|timeout| *age < timeout);
        lists.entry(&self.list, address).is_some_and(|entry| entry.ages.iter().any(lives))
    }

    /// Adds the values at which a lookup with this key changes: keys that rules added depend on history; for lookups by address, the other
    /// keys are edges.
    pub(super) fn edges(&self, key: &[LookupKey], edges: &mut Edges) {
        match key {
            [LookupKey::Address(side)] if self.dynamic.is_none() => {
                let values = edges.addresses(*side == Side::Source);
                self.addresses().for_each(|(first, last)| Edges::between(values, first, last));
            }
            _ => edges.history = true,
        }
    }
}
