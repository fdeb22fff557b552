//! `iprange`: an address range. Rule sets keep its options as text.

use super::Condition;
use crate::cluster::Family;
use crate::iptables::text::{KeptOption, values};
use crate::walk::{Edges, Field, Trace, Walker};

/// A range for an address of the packet.
#[derive(Debug, Clone)]
pub(in crate::iptables) struct Between {
    field: Field,
    negated: bool,
    first: u128,
    last: u128,
}

/// Compiles options that are kept as text.
pub(super) fn compile(options: &[KeptOption<'_>], family: Family) -> Option<Condition> {
    let [option] = options else { return None };
    let field = match option.name {
        "--src-range" => Field::Source,
        "--dst-range" => Field::Destination,
        _ => return None,
    };
    let text = option.argument()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (values::address_bits(first, family)?, values::address_bits(last, family)?);
    Some(Condition::Between(Box::new(Between { field, negated: option.negated, first, last })))
}

impl Between {
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        walker.is_between(self.field, self.first, self.last) ^ self.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        Edges::between(edges.addresses(self.field == Field::Source), self.first, self.last);
    }
}
