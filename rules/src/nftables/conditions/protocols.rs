//! `meta l4proto tcp`, `meta l4proto { icmp, 112 }`: the protocol.

use smallvec::SmallVec;

use super::{Condition, explain_not, one_of};
use crate::cluster::{Protocol, ProtocolNumber};
use crate::nftables::text::{Line, not, one_or_braces};
use crate::walk::{Edges, Trace, Walker};

/// The protocol number is one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocols {
    /// True for `!=`.
    pub negated: bool,
    /// The protocol numbers, at least one.
    pub numbers: SmallVec<[u8; 8]>,
}

/// Parses what follows `meta l4proto` or `ip protocol`.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Condition> {
    let negated = line.negation();
    let numbers = line.several(|word| ProtocolNumber::parse(word.text).map(|protocol| protocol.0))?.into();
    Some(Condition::Protocols(Protocols { negated, numbers }))
}

impl Protocols {
    pub(super) fn print(&self, out: &mut String) {
        out.extend(["meta l4proto ", not(self.negated)]);
        let word = |number: u8| Protocol::from_number(number).map_or_else(|| number.to_string(), |one| one.to_string());
        one_or_braces(out, &self.numbers, |out, number| out.push_str(&word(*number)));
    }

    pub(super) fn explain(&self) -> String {
        let name = |number: &u8| {
            Protocol::from_number(*number).map_or_else(|| format!("protocol {number}"), |one| one.to_string())
        };
        format!("{}{}", explain_not(self.negated), one_of(&self.numbers, name))
    }

    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        walker.is_protocol(&self.numbers) ^ self.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        edges.protocols.extend(&self.numbers);
    }
}
