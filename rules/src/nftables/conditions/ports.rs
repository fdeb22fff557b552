//! `tcp dport 80`, `th sport != { 22, 80-90 }`: ports.

use std::fmt::Write;
use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::{Condition, explain_not, one_of};
use crate::cluster::Protocol;
use crate::nftables::key::{BLIND, Side};
use crate::nftables::text::{Line, not, one_or_braces};
use crate::walk::{Edges, Field, Held, Trace, Walker};

/// One of the packet's ports, and the protocol if it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The protocol; `None` for `th`, which matches any protocol with ports.
    pub protocol: Option<Protocol>,
    /// Source or destination.
    pub side: Side,
    /// True for `!=`.
    pub negated: bool,
    /// The ports, at least one range.
    pub ports: SmallVec<[RangeInclusive<u16>; 1]>,
}

/// Parses what follows `tcp` or `th`.
pub(super) fn parse(protocol: Option<Protocol>, line: &mut Line<'_, '_>) -> Option<Condition> {
    let side = match line.next() {
        "sport" => Side::Source,
        "dport" => Side::Destination,
        _ => return None,
    };
    let negated = line.negation();
    let ports = line.several(|word| range(word.text))?.into();
    Some(Condition::Ports(Ports { protocol, side, negated, ports }))
}

/// `80` or `80-90`.
fn range(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

fn print_range(range: &RangeInclusive<u16>) -> String {
    match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

impl Ports {
    pub(super) fn print(&self, out: &mut String) {
        let field = if self.side == Side::Source { "sport" } else { "dport" };
        let protocol = self.protocol.map_or("th", Protocol::as_str);
        let _ = write!(out, "{protocol} {field} {}", not(self.negated));
        one_or_braces(out, &self.ports, |out, range| out.push_str(&print_range(range)));
    }

    pub(super) fn explain(&self) -> String {
        let protocol = self.protocol.map(|protocol| format!("{protocol}, ")).unwrap_or_default();
        let ports = one_of(&self.ports, print_range);
        format!("{protocol}{}{} port {ports}", explain_not(self.negated), self.side.explain())
    }

    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> Held {
        let has_ports = match self.protocol {
            Some(protocol) => walker.is_protocol(&[protocol.number()]),
            None => walker.ports().is_some(),
        };
        if !has_ports {
            return if self.protocol.is_none() { Held::Unknown(BLIND.into()) } else { Held::No };
        }
        let field = if self.side == Side::Source { Field::SourcePort } else { Field::DestinationPort };
        let ranges = || self.ports.iter().map(|range| (u128::from(*range.start()), u128::from(*range.end())));
        (walker.is_among(field, ranges) ^ self.negated).into()
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        edges.protocols.extend(self.protocol.map(Protocol::number));
        let values = edges.ports_of(self.side == Side::Source);
        self.ports.iter().for_each(|range| Edges::ports(values, *range.start(), *range.end()));
    }
}
