//! An index of long chains, which finds the few rules that can match a packet.
//!
//! kube-proxy's `KUBE-SERVICES` has at least one rule for every service, each for one destination address, and `KUBE-NODEPORTS` one for
//! every node port. A packet can match rules with its own address or port, and rules with none; the others are skipped.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::iptables::matches::{Condition, Field, PortField};
use crate::walk::{self, Trace, Walker, bits};
use rustc_hash::FxHashMap;

/// Chains shorter than this are searched linearly.
const LONG: usize = 8;

/// Positions of rules. Most addresses have few, which need no allocation.
type Few = SmallVec<[u32; 4]>;

/// The rules of a chain by what they match, as positions in the program, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Rules for one protocol, destination port and destination address.
    by_both: FxHashMap<(u8, u16, u128), Few>,
    /// Other rules for one destination address.
    by_address: FxHashMap<u128, Few>,
    /// Other rules for one protocol and destination port.
    by_port: FxHashMap<(u8, u16), Few>,
    /// All others.
    others: Few,
    /// The same addresses, in order.
    addresses: Ranges,
    /// The same ports by protocol. Sets of packets are split by port first and then by address: packets to ports that no rule matches need
    /// not be split by address.
    ports: BTreeMap<u8, Ports>,
}

/// Sorted, disjoint ranges.
type Ranges = Vec<(u128, u128)>;

/// The destination ports that rules match.
#[derive(Debug, Clone, Default)]
struct Ports {
    /// Ports of rules that also match an address.
    with_addresses: Ranges,
    addresses: FxHashMap<u16, Ranges>,
    /// Ports of other rules.
    alone: Ranges,
}

/// The key of a rule in the index.
enum Key {
    Both(u8, u16, u128),
    Address(u128),
    Port(u8, u16),
}

impl Index {
    /// Builds the index of a chain from the conditions of its rules and the position of the first; `None` if it is not worth one.
    pub(super) fn of<'a>(first: u32, rules: impl ExactSizeIterator<Item = &'a [Condition]>) -> Option<Self> {
        let mut index = Self::default();
        let count = rules.len();
        if count < LONG {
            return None;
        }
        for (position, conditions) in (first..).zip(rules) {
            match key(conditions) {
                Some(Key::Both(protocol, port, address)) => {
                    index.by_both.entry((protocol, port, address)).or_default().push(position);
                }
                Some(Key::Address(address)) => index.by_address.entry(address).or_default().push(position),
                Some(Key::Port(protocol, port)) => index.by_port.entry((protocol, port)).or_default().push(position),
                None => index.others.push(position),
            }
        }
        index.sort_keys();
        (index.others.len() < count / 2).then_some(index)
    }

    fn sort_keys(&mut self) {
        self.addresses = ranges(self.by_address.keys().copied());
        for &(protocol, port, address) in self.by_both.keys() {
            let own = self.ports.entry(protocol).or_default();
            own.addresses.entry(port).or_default().push((address, address));
        }
        for &(protocol, port) in self.by_port.keys() {
            self.ports.entry(protocol).or_default().alone.push((port.into(), port.into()));
        }
        for own in self.ports.values_mut() {
            own.alone.sort_unstable();
            own.addresses.values_mut().for_each(|addresses| addresses.sort_unstable());
            own.with_addresses = ranges(own.addresses.keys().map(|port| u128::from(*port)));
        }
    }

    /// Returns the first rule at or after a position that a packet can match.
    pub(super) fn next_for<T: Trace>(&self, from: u32, walker: &Walker<T>) -> Option<u32> {
        let destination = bits(walker.packet.destination);
        let transport = walker.packet.transport;
        let port = transport.ports().map(|(_, destination)| destination);
        let own = self.ports.iter().find(|(protocol, _)| walker.is_protocol(&[**protocol]));
        if let Some((_, own)) = own {
            let number = walk::Field::DestinationPort.of(&walker.packet);
            walker.trace.looked_up(walk::Field::DestinationPort, number, || &own.with_addresses);
            if let Some(addresses) = port.and_then(|port| own.addresses.get(&port)) {
                walker.trace.looked_up(walk::Field::Destination, destination, || addresses);
            }
            walker.trace.looked_up(walk::Field::DestinationPort, number, || &own.alone);
        }
        walker.trace.looked_up(walk::Field::Destination, destination, || &self.addresses);
        self.next(from, destination, transport.protocol(), port)
    }

    /// Returns the first rule at or after a position that can match a packet with these fields.
    fn next(&self, from: u32, destination: u128, protocol: u8, port: Option<u16>) -> Option<u32> {
        let by_address = self.by_address.get(&destination);
        let by_port = port.filter(|_| !self.by_port.is_empty()).and_then(|port| self.by_port.get(&(protocol, port)));
        let by_both = port.and_then(|port| self.by_both.get(&(protocol, port, destination)));
        let lists = [by_both, by_address, by_port, Some(&self.others)].into_iter().flatten();
        lists.filter_map(|list| list.get(list.partition_point(|rule| *rule < from))).min().copied()
    }
}

/// Returns the key of a rule. Only conditions before the first one with an effect count, because other packets cause that effect too.
fn key(conditions: &[Condition]) -> Option<Key> {
    let first_effect = conditions.iter().position(Condition::has_effect);
    let conditions = &conditions[..first_effect.unwrap_or(conditions.len())];
    let address = conditions.iter().find_map(|condition| match condition {
        Condition::Field { field: Field::Destination, negated: false, shift: 0, value } => Some(*value),
        _ => None,
    });
    let port = conditions.iter().find_map(|condition| match condition {
        Condition::Port { protocol, field: PortField::Destination, negated: false, first, last } => {
            (first == last).then_some((*protocol, *first))
        }
        _ => None,
    });
    match (address, port) {
        (Some(address), Some((protocol, port))) => Some(Key::Both(protocol, port, address)),
        (Some(address), None) => Some(Key::Address(address)),
        (None, Some((protocol, port))) => Some(Key::Port(protocol, port)),
        (None, None) => None,
    }
}

/// Returns ranges of one number each, in order.
fn ranges(numbers: impl Iterator<Item = u128>) -> Ranges {
    let mut ranges: Ranges = numbers.map(|number| (number, number)).collect();
    ranges.sort_unstable();
    ranges
}
