//! The packet fields that `-s`, `-d`, `-i` and `-o` compare, as numbers: addresses and interface names.

use super::Condition;
use crate::cluster::Family;
use crate::iptables::{Negatable, Network};
use crate::walk::{self, Edges, Held, Interface, Intervals, Packet, Trace, Walker, bits};

/// A packet field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::iptables) enum Field {
    Source,
    Destination,
    Input,
    Output,
}

/// A packet field under a mask.
#[derive(Debug, Clone)]
pub(in crate::iptables) struct MaskedField {
    field: Field,
    negated: bool,
    value: u128,
    mask: u128,
}

impl Field {
    pub(super) fn of(self, packet: &Packet) -> u128 {
        match self {
            Self::Source => bits(packet.source),
            Self::Destination => bits(packet.destination),
            Self::Input => Interface::number(packet.input),
            Self::Output => Interface::number(packet.output),
        }
    }

    /// Returns the same field in a region of packets; nothing for interface names.
    fn asked(self) -> Option<walk::Field> {
        match self {
            Self::Source => Some(walk::Field::Source),
            Self::Destination => Some(walk::Field::Destination),
            Self::Input | Self::Output => None,
        }
    }

    /// Returns whether the field equals `value` without the lowest `shift` bits of both.
    #[inline]
    pub(super) fn is_under<T: Trace>(self, walker: &Walker<T>, shift: u8, value: u128) -> bool {
        let number = self.of(&walker.packet);
        let fits = |number: u128| (number ^ value) >> shift == 0;
        match self.asked() {
            Some(field) => {
                let first = value >> shift << shift;
                walker.trace.asked(field, number, || Intervals::between(first, first | ((1 << shift) - 1)));
            }
            None => walker.trace.asked_name(number, fits),
        }
        fits(number)
    }

    pub(super) fn edges(self, first: u128, last: u128, edges: &mut Edges) {
        match self {
            Self::Source => Edges::between(&mut edges.sources, first, last),
            Self::Destination => Edges::between(&mut edges.destinations, first, last),
            Self::Input => drop(edges.inputs.insert(first)),
            Self::Output => drop(edges.outputs.insert(first)),
        }
    }

    /// Returns the condition of `-s` or `-d`; nothing if it always holds.
    pub(in crate::iptables) fn address(self, network: &Negatable<Network>, family: Family) -> Option<Condition> {
        let negated = network.negated;
        match &network.value {
            Network::Prefix(range) => {
                let shift = family.bits().saturating_sub(range.prefix_len());
                self.prefix(negated, shift, bits(range.addr()), family.bits())
            }
            Network::Masked(pair) => {
                let (value, mask) = (bits(pair.0), bits(pair.1));
                Some(Condition::Masked(Box::new(MaskedField { field: self, negated, value: value & mask, mask })))
            }
        }
    }

    /// Returns the condition of `-i` or `-o`; nothing if it always holds.
    pub(in crate::iptables) fn interface(self, name: &Negatable<Box<str>>) -> Option<Condition> {
        let (shift, value) = name_bits(&name.value);
        self.prefix(name.negated, shift, value, 128)
    }

    fn prefix(self, negated: bool, shift: u8, value: u128, bits: u8) -> Option<Condition> {
        match (shift == bits, negated) {
            (true, false) => None,
            (true, true) => Some(Condition::Never),
            _ => Some(Condition::Field { field: self, negated, shift, value }),
        }
    }
}

/// Returns a name as a number, and how many of its lowest bits are ignored: a trailing `+` and everything after it.
pub(super) fn name_bits(name: &str) -> (u8, u128) {
    let Some(start) = name.strip_suffix('+') else { return (0, Interface::number_of_text(name)) };
    (128 - 8 * start.len().min(16) as u8, Interface::number_of_text(start))
}

impl MaskedField {
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> Held {
        let number = self.field.of(&walker.packet);
        let Some(field) = self.field.asked() else {
            return ((number & self.mask == self.value) ^ self.negated).into();
        };
        let width = walker.packet.family().bits();
        walker.is_masked(field, number, self.value, self.mask, width).negated(self.negated)
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        let values = match self.field {
            Field::Source => &mut edges.sources,
            Field::Destination => &mut edges.destinations,
            Field::Input => &mut edges.inputs,
            Field::Output => &mut edges.outputs,
        };
        Edges::masked(values, self.value, self.mask);
    }
}
