//! Conditions of rules as comparisons of numbers.

use std::net::IpAddr;
use std::sync::Arc;

use super::lookup::{BLIND, Elements, Packed, is_blind};
use crate::nftables::{AddressRange, LookupKey, Side};
use crate::walk::{Effect, Environment, Held, Interface, RecentLists, State, Trace, Tracked, Tracking, Walker, bits};

/// A condition of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// `ct state new`.
    New,
    /// `ct status dnat`.
    Translated,
    /// An address lies in one of some ranges.
    Between { side: Side, negated: bool, ranges: Box<[(u128, u128)]> },
    /// The protocol's number.
    Protocol(u8),
    /// The protocol's number, and the destination port.
    DestinationPort(u8, u16),
    /// The name of the interface that the packet came by is this one where the lowest `shift` bits of both are left out.
    InInterface { negated: bool, shift: u8, value: u128 },
    /// `fib saddr type local`.
    Local(Side),
    /// Whether any of these bits of the mark is set.
    Mark { set: bool, bits: u32 },
    /// Whether a set, by its position, has the packet's key.
    InSet { negated: bool, key: Box<[LookupKey]>, set: u32 },
    /// Not modelled, for this reason.
    Unknown(Arc<str>),
}

impl Condition {
    /// Whether an address lies in one of these ranges.
    pub(super) fn between(side: Side, negated: bool, ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        let ranges = ranges.into_iter().map(|range| (bits(range.first), bits(range.last))).collect();
        Self::Between { side, negated, ranges }
    }

    /// The name of the interface that a packet came by; of a pattern, a `*` at the end stands for any rest.
    pub(super) fn interface(negated: bool, name: &str, is_pattern: bool) -> Self {
        let start = name.strip_suffix('*').filter(|_| is_pattern);
        let shift = start.map_or(0, |start| 128 - 8 * start.len().min(16) as u8);
        Self::InInterface { negated, shift, value: Interface::number_of_text(start.unwrap_or(name)) }
    }

    /// Whether it holds for a packet.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>, sets: &[Elements], environment: &Environment) -> Held {
        let transport = walker.packet.transport;
        match self {
            Self::New => matches!(walker.tracking(), Tracking::Tracked(Tracked { state: State::New, .. })).into(),
            Self::Translated => walker.tracking().connection().is_some_and(|connection| connection.is_dnat()).into(),
            Self::Between { side, negated, ranges } => {
                let address = bits(address(*side, walker));
                (ranges.iter().any(|(first, last)| (first..=last).contains(&&address)) ^ negated).into()
            }
            Self::Protocol(number) => (transport.protocol() == *number).into(),
            Self::DestinationPort(number, port) => {
                let is = |(_, destination): (u16, u16)| destination == *port && transport.protocol() == *number;
                transport.ports().is_some_and(is).into()
            }
            Self::InInterface { negated, shift, value } => {
                // A shift by all bits is for `*`, which any name fits.
                let differs =
                    (Interface::number(walker.packet.input) ^ value).checked_shr(u32::from(*shift)).unwrap_or(0);
                ((differs == 0) ^ negated).into()
            }
            Self::Local(side) => environment.addresses.is_local(address(*side, walker)).into(),
            Self::Mark { set, bits } => ((walker.packet.mark & bits != 0) == *set).into(),
            Self::InSet { key, .. } if is_blind(key, walker) => Held::Unknown(BLIND.into()),
            Self::InSet { negated, key, set } => {
                let set = &sets[*set as usize];
                let found =
                    set.keys.contains_key(&Packed::made(key, walker)) || remembers(set, key, walker, environment);
                (found ^ negated).into()
            }
            Self::Unknown(why) => Held::Unknown(why.clone()),
        }
    }
}

fn address<T>(side: Side, walker: &Walker<T>) -> IpAddr {
    match side {
        Side::Source => walker.packet.source,
        Side::Destination => walker.packet.destination,
    }
}

/// Whether rules put a packet's key into a set, and it is still there (`nft_set_elem_expired`). Only addresses are put
/// into sets.
fn remembers<T: Trace>(set: &Elements, key: &[LookupKey], walker: &Walker<T>, environment: &Environment) -> bool {
    let [LookupKey::Address(side)] = key else { return false };
    let address = address(*side, walker);
    let by_this_packet = |effect: &Effect| match effect {
        Effect::Note { list, address: noted } => *list == set.list && *noted == address,
        Effect::Forget { .. } => false,
    };
    walker.effects.iter().any(by_this_packet) || is_noted(set, address, &environment.recent)
}

fn is_noted(set: &Elements, address: IpAddr, lists: &RecentLists) -> bool {
    let lives = |age: &u32| set.timeout.is_none_or(|timeout| *age < timeout);
    lists.entry(&set.list, address).is_some_and(|entry| entry.ages.iter().any(lives))
}
