//! Conditions of rules as comparisons of numbers.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use smallvec::SmallVec;

use super::lookup::{BLIND, Elements, field, is_blind};
use crate::nftables::{AddressRange, ConnectionState, LookupKey, Side};
use crate::walk::{
    Effect, Environment, Field, Held, Interface, Intervals, RecentLists, State, Trace, Tracked, Tracking, Walker, bits,
};

/// A condition of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    /// The connection tracking state is one of these.
    State { negated: bool, states: Box<[ConnectionState]> },
    /// `ct status dnat`.
    Translated,
    /// An address lies in one of some ranges.
    Between { side: Side, negated: bool, ranges: Box<[(u128, u128)]> },
    /// A port lies in one of some ranges, and the protocol is this one where it is given.
    Ports { protocol: Option<u8>, side: Side, negated: bool, ports: SmallVec<[RangeInclusive<u16>; 1]> },
    /// The protocol's number is one of these.
    Protocols { negated: bool, numbers: SmallVec<[u8; 8]> },
    /// The name of an interface is one of these where the lowest bits of both, so many, are left out.
    Interface { output: bool, negated: bool, names: Box<[(u8, u128)]> },
    /// `fib saddr type local`.
    Local(Side),
    /// The mark's bits are of this value.
    Mark { negated: bool, mask: u32, value: u32 },
    /// Whether a set, by its position, has the packet's key.
    InSet { negated: bool, key: Box<[LookupKey]>, set: u32 },
    /// Known before a packet comes.
    Always(bool),
    /// Not modelled, for this reason.
    Unknown(Arc<str>),
}

impl Condition {
    /// Whether an address lies in one of these ranges.
    pub(super) fn between(side: Side, negated: bool, ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        let ranges = ranges.into_iter().map(|range| (bits(range.first), bits(range.last))).collect();
        Self::Between { side, negated, ranges }
    }

    /// The names of an interface that fit; of a pattern, a `*` at the end matches any rest.
    pub(super) fn interfaces(output: bool, negated: bool, by_name: bool, names: &[Box<str>]) -> Self {
        let packed = |name: &str| {
            let start = name.strip_suffix('*').filter(|_| by_name);
            let shift = start.map_or(0, |start| 128 - 8 * start.len().min(16) as u8);
            (shift, Interface::number_of_text(start.unwrap_or(name)))
        };
        Self::Interface { output, negated, names: names.iter().map(|name| packed(name)).collect() }
    }

    /// Whether it holds for a packet.
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>, sets: &[Elements], environment: &Environment) -> Held {
        match self {
            Self::State { negated, states } => (states.contains(&state(walker.tracking())) ^ negated).into(),
            Self::Translated => walker.tracking().connection().is_some_and(|connection| connection.is_dnat()).into(),
            Self::Between { side, negated, ranges } => {
                (walker.is_among(field(*side), || ranges.iter().copied()) ^ negated).into()
            }
            Self::Ports { protocol, side, negated, ports } => {
                let has_ports = match protocol {
                    Some(number) => walker.is_protocol(&[*number]),
                    None => walker.ports().is_some(),
                };
                let field = if *side == Side::Source { Field::SourcePort } else { Field::DestinationPort };
                let ranges = || ports.iter().map(|range| (u128::from(*range.start()), u128::from(*range.end())));
                match (has_ports, protocol) {
                    (true, _) => (walker.is_among(field, ranges) ^ negated).into(),
                    (false, None) => Held::Unknown(BLIND.into()),
                    (false, Some(_)) => Held::No,
                }
            }
            Self::Protocols { negated, numbers } => (walker.is_protocol(numbers) ^ negated).into(),
            Self::Interface { output, negated, names } => {
                let packet = &walker.packet;
                let number = Interface::number(if *output { packet.output } else { packet.input });
                // A shift by all bits is for `*`, which any name fits.
                let fits = |number: u128| {
                    names.iter().any(|(shift, name)| (number ^ name).checked_shr((*shift).into()).unwrap_or(0) == 0)
                };
                walker.trace.asked_name(number, fits);
                (fits(number) ^ negated).into()
            }
            Self::Local(side) => walker.is_local(field(*side), environment).into(),
            Self::Mark { negated, mask, value } => ((walker.packet.mark & mask == *value) ^ negated).into(),
            Self::InSet { key, .. } if is_blind(key, walker) => Held::Unknown(BLIND.into()),
            Self::InSet { negated, key, set } => {
                let set = &sets[*set as usize];
                let found = set.find(key, walker).is_some() || remembers(set, key, walker, environment);
                ask_for_noted(set, key, walker, &environment.recent);
                (found ^ negated).into()
            }
            Self::Always(holds) => (*holds).into(),
            Self::Unknown(why) => Held::Unknown(why.clone()),
        }
    }
}

/// The bit that `nft_ct` has for a packet, by its name.
fn state(tracking: &Tracking) -> ConnectionState {
    match tracking {
        Tracking::Invalid => ConnectionState::Invalid,
        Tracking::Untracked => ConnectionState::Untracked,
        Tracking::Tracked(Tracked { state: State::New, .. }) => ConnectionState::New,
        Tracking::Tracked(Tracked { state: State::Established, .. }) => ConnectionState::Established,
        Tracking::Tracked(Tracked { state: State::Related, .. }) => ConnectionState::Related,
    }
}

/// Whether rules put a packet's key into a set, and it is still there (`nft_set_elem_expired`). Only addresses are put
/// into sets.
fn remembers<T: Trace>(set: &Elements, key: &[LookupKey], walker: &Walker<T>, environment: &Environment) -> bool {
    let [LookupKey::Address(side)] = key else { return false };
    let address = side.of(&walker.packet);
    let by_this_packet = |effect: &Effect| match effect {
        Effect::Note { list, address: noted } => *list == set.list && *noted == address,
        Effect::Forget { .. } => false,
    };
    walker.effects.iter().any(by_this_packet) || is_noted(set, address, &environment.recent)
}

/// Asks for each address that rules put into a set before whether it is the packet's, for sets of packets.
fn ask_for_noted<T: Trace>(set: &Elements, key: &[LookupKey], walker: &Walker<T>, lists: &RecentLists) {
    let [LookupKey::Address(side)] = key else { return };
    let address = bits(side.of(&walker.packet));
    if walker.trace.is_open(field(*side), address) {
        for noted in lists.noted(&set.list) {
            walker.trace.asked(field(*side), address, || Intervals::one(noted));
        }
    }
}

fn is_noted(set: &Elements, address: IpAddr, lists: &RecentLists) -> bool {
    let lives = |age: &u32| set.timeout.is_none_or(|timeout| *age < timeout);
    lists.entry(&set.list, address).is_some_and(|entry| entry.ages.iter().any(lives))
}
