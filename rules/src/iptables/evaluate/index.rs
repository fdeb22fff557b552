//! Finds the few rules of a long chain that can match a packet.
//!
//! kube-proxy's `KUBE-SERVICES` has a rule or more for every service, each for one destination address, and
//! `KUBE-NODEPORTS` one for every node port. A packet can match those that name its own address or port, and those that
//! name none; the others are skipped.

use smallvec::SmallVec;

use crate::iptables::matches::{Condition, Field, PortField};
use crate::walk::{self, Trace, Walker, bits};
use rustc_hash::FxHashMap;

/// Chains shorter than this are gone through.
const LONG: usize = 8;

/// Positions of rules. Most addresses have few; those need no allocation.
type Few = SmallVec<[u32; 4]>;

/// Where the rules of a chain are that can match a packet, all as positions in the program, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Rules for one destination address.
    by_address: FxHashMap<u128, Few>,
    /// Other rules for one protocol and destination port.
    by_port: FxHashMap<(u8, u16), Few>,
    /// All others.
    others: Few,
    /// The addresses and ports again, in order.
    addresses: Vec<(u128, u128)>,
    ports: Vec<(u8, Vec<(u128, u128)>)>,
}

/// What a rule is found by.
enum Key {
    Address(u128),
    Port(u8, u16),
}

impl Index {
    /// The index of a chain, where it is worth one; from the conditions of its rules and the position of the first.
    pub(super) fn of<'a>(first: u32, rules: impl ExactSizeIterator<Item = &'a [Condition]>) -> Option<Self> {
        let mut index = Self::default();
        let count = rules.len();
        if count < LONG {
            return None;
        }
        for (position, conditions) in (first..).zip(rules) {
            match key(conditions) {
                Some(Key::Address(address)) => index.by_address.entry(address).or_default().push(position),
                Some(Key::Port(protocol, port)) => index.by_port.entry((protocol, port)).or_default().push(position),
                None => index.others.push(position),
            }
        }
        index.sort_keys();
        (index.others.len() < count / 2).then_some(index)
    }

    fn sort_keys(&mut self) {
        self.addresses = self.by_address.keys().map(|address| (*address, *address)).collect();
        self.addresses.sort_unstable();
        let mut ports: Vec<(u8, u16)> = self.by_port.keys().copied().collect();
        ports.sort_unstable();
        let of_protocol =
            |same: &[(u8, u16)]| same.iter().map(|(_, port)| (u128::from(*port), u128::from(*port))).collect();
        self.ports = ports.chunk_by(|one, next| one.0 == next.0).map(|same| (same[0].0, of_protocol(same))).collect();
    }

    /// The first rule at or behind a position that a packet can match.
    pub(super) fn next_for<T: Trace>(&self, from: u32, walker: &Walker<T>) -> Option<u32> {
        let destination = bits(walker.packet.destination);
        let transport = walker.packet.transport;
        walker.trace.looked_up(walk::Field::Destination, destination, || &self.addresses);
        if let Some((_, ports)) = self.ports.iter().find(|(protocol, _)| walker.is_protocol(&[*protocol])) {
            let port = walk::Field::DestinationPort.of(&walker.packet);
            walker.trace.looked_up(walk::Field::DestinationPort, port, || ports);
        }
        let port = transport.ports().map(|(_, destination)| destination);
        self.next(from, destination, transport.protocol(), port)
    }

    /// The first rule at or behind a position that can match a packet.
    fn next(&self, from: u32, destination: u128, protocol: u8, port: Option<u16>) -> Option<u32> {
        let by_address = self.by_address.get(&destination);
        let by_port = port.filter(|_| !self.by_port.is_empty()).and_then(|port| self.by_port.get(&(protocol, port)));
        let lists = [by_address, by_port, Some(&self.others)].into_iter().flatten();
        lists.filter_map(|list| list.get(list.partition_point(|rule| *rule < from))).min().copied()
    }
}

/// The key of a rule: a condition that is evaluated before any with an effect, which other packets cause too.
fn key(conditions: &[Condition]) -> Option<Key> {
    let first_effect = conditions.iter().position(Condition::has_effect);
    let conditions = &conditions[..first_effect.unwrap_or(conditions.len())];
    let address = conditions.iter().find_map(|condition| match condition {
        Condition::Field { field: Field::Destination, negated: false, shift: 0, value } => Some(Key::Address(*value)),
        _ => None,
    });
    address.or_else(|| {
        conditions.iter().find_map(|condition| match condition {
            Condition::Port { protocol, field: PortField::Destination, negated: false, first, last } => {
                (first == last).then_some(Key::Port(*protocol, *first))
            }
            _ => None,
        })
    })
}
