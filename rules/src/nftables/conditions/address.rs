//! `ip saddr 10.0.0.1`, `ip daddr != @set`: one of the packet's addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Comparison, Condition, explain_not, one_of};
use crate::cluster::Family;
use crate::nftables::key::{LookupKey, Side};
use crate::nftables::name::Name;
use crate::nftables::positions::Positions;
use crate::nftables::ranges::{self, AddressRange};
use crate::nftables::text::{Line, family, join, not};
use crate::walk::{Edges, Trace, Walker, bits};

/// The addresses to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// One address.
    One(IpAddr),
    /// A range by prefix.
    Prefix(IpNet),
    /// Several ranges, written in braces.
    Ranges(Vec<AddressRange>),
    /// The elements of a set.
    Set(Name),
}

/// Parses what follows `ip saddr`.
pub(super) fn parse(side: Side, line: &mut Line<'_, '_>) -> Option<Condition> {
    let negated = line.negation();
    let value = if line.peek() == "{" {
        Addresses::Ranges(line.several(|word| AddressRange::parse(word.text))?)
    } else {
        let word = line.next();
        match (Name::from_reference(word), word.parse::<IpAddr>(), word.parse::<IpNet>()) {
            (Some(set), ..) => Addresses::Set(set),
            (None, Ok(address), _) => Addresses::One(address),
            (None, Err(_), Ok(prefix)) => Addresses::Prefix(prefix.trunc()),
            _ => Addresses::Ranges(vec![AddressRange::parse(word)?]),
        }
    };
    Some(Condition::Address { side, negated, value })
}

pub(super) fn print(side: Side, negated: bool, value: &Addresses, out: &mut String, ip: Family) {
    out.extend([family(ip), " ", side.as_str(), " ", not(negated)]);
    match value {
        Addresses::One(address) => out.push_str(&address.to_string()),
        Addresses::Prefix(prefix) => out.push_str(&AddressRange::from(*prefix).to_string()),
        Addresses::Set(name) => out.extend(["@", &**name]),
        Addresses::Ranges(ranges) => {
            out.push_str("{ ");
            join(out, ", ", ranges, |out, range| out.push_str(&range.to_string()));
            out.push_str(" }");
        }
    }
}

pub(super) fn explain(side: Side, negated: bool, value: &Addresses) -> String {
    let value = match value {
        Addresses::One(address) => address.to_string(),
        Addresses::Prefix(prefix) => AddressRange::from(*prefix).to_string(),
        Addresses::Ranges(ranges) => one_of(ranges, ToString::to_string),
        Addresses::Set(set) => format!("an address in the set {set}"),
    };
    format!("{}{} {value}", explain_not(negated), side.explain())
}

pub(super) fn compile(side: Side, negated: bool, value: &Addresses, at: &Positions<'_>) -> Comparison {
    let range = |range: AddressRange| (bits(range.first), bits(range.last));
    let ranges = match value {
        Addresses::One(address) => [range((*address).into())].into(),
        Addresses::Prefix(prefix) => [range((*prefix).into())].into(),
        Addresses::Ranges(ranges) => ranges.iter().copied().map(range).collect(),
        Addresses::Set(set) => {
            let key = Box::new([LookupKey::Address(side)]);
            return Comparison::InSet { negated, key, set: at.sets[&**set] };
        }
    };
    Comparison::Between(Between { side, negated, ranges })
}

impl Addresses {
    /// Normalises a list of ranges as nft does: no braces around a single one; several are sorted, and merged if they overlap or touch.
    /// Returns nothing for no range.
    pub(in crate::nftables) fn in_braces(listed: &[AddressRange]) -> Option<Self> {
        match listed {
            [] => None,
            [single] => Some(single.prefix().map_or_else(|| Self::Ranges(listed.to_vec()), Self::Prefix)),
            several => Some(Self::Ranges(ranges::join(several.to_vec()))),
        }
    }
}

/// An address is in one of several ranges.
#[derive(Debug, Clone)]
pub(in crate::nftables) struct Between {
    side: Side,
    negated: bool,
    /// The first and last address of each.
    ranges: Box<[(u128, u128)]>,
}

impl Between {
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        walker.is_among(self.side.field(), || self.ranges.iter().copied()) ^ self.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        let values = edges.addresses(self.side == Side::Source);
        self.ranges.iter().for_each(|(first, last)| Edges::between(values, *first, *last));
    }
}
