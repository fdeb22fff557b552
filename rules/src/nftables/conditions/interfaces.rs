//! `iif "cni0"`, `oifname { "eth0", "cali*" }`: an interface.

use super::{Comparison, Condition, explain_not, one_of};
use crate::nftables::text::{Kind, Line, Word, is_keyword, not, number, one_or_braces};
use crate::walk::{Edges, Interface, Trace, Walker};

/// The input or output interface of the packet is one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces {
    /// Whether it is the output interface.
    pub output: bool,
    /// True for `iifname` and `oifname`, where a trailing `*` makes a prefix. For `iif` and `oif` the interface must exist when the rule is
    /// loaded.
    pub by_name: bool,
    /// True for `!=`.
    pub negated: bool,
    /// The names, at least one.
    pub names: Vec<Box<str>>,
}

/// Parses what follows `iif`, `iifname`, `oif` or `oifname`.
pub(super) fn parse(word: &str, line: &mut Line<'_, '_>) -> Option<Condition> {
    let negated = line.negation();
    let (output, by_name) = (word.starts_with('o'), word.ends_with("name"));
    let names = line.several(|word| is_name(word, by_name).then(|| word.text.into()))?;
    Some(Condition::Interfaces(Interfaces { output, by_name, negated, names }))
}

/// Returns whether a word is an interface name. A map, a concatenation, a set, a variable or, after `iif` and `oif`, the index of an
/// interface may be in its place.
fn is_name(word: &Word<'_>, by_name: bool) -> bool {
    match word.kind {
        Kind::Quoted => true,
        Kind::Plain => {
            let is_index = !by_name && number(word.text).is_some();
            !is_index && !is_keyword(word.text) && !word.text.starts_with(['.', '@', '$', '(', '!', '<', '>', '&'])
        }
        Kind::Sign | Kind::Newline => false,
    }
}

impl Interfaces {
    pub(super) fn print(&self, out: &mut String) {
        let (word, name) = (if self.output { "oif" } else { "iif" }, if self.by_name { "name " } else { " " });
        out.extend([word, name, not(self.negated)]);
        one_or_braces(out, &self.names, |out, name| out.extend(["\"", &**name, "\""]));
    }

    pub(super) fn explain(&self) -> String {
        let way = if self.output { "out" } else { "in" };
        format!("{}{way} by {}", explain_not(self.negated), one_of(&self.names, ToString::to_string))
    }

    pub(super) fn compile(&self) -> Comparison {
        let packed = |name: &str| {
            let start = name.strip_suffix('*').filter(|_| self.by_name);
            let shift = start.map_or(0, |start| 128 - 8 * start.len().min(16) as u8);
            (shift, Interface::number_of_text(start.unwrap_or(name)))
        };
        let names = self.names.iter().map(|name| packed(name)).collect();
        Comparison::Interface(InterfaceNames { output: self.output, negated: self.negated, names })
    }
}

/// The name of an interface is one of these, each compared without a number of its lowest bits.
#[derive(Debug, Clone)]
pub(in crate::nftables) struct InterfaceNames {
    output: bool,
    negated: bool,
    names: Box<[(u8, u128)]>,
}

impl InterfaceNames {
    pub(super) fn holds<T: Trace>(&self, walker: &Walker<T>) -> bool {
        let packet = &walker.packet;
        let number = Interface::number(if self.output { packet.output } else { packet.input });
        // A shift by all bits is for `*`, which matches any name.
        let is =
            |number: u128, (shift, name): &(u8, u128)| (number ^ name).checked_shr((*shift).into()).unwrap_or(0) == 0;
        let fits = |number: u128| self.names.iter().any(|name| is(number, name));
        walker.trace.asked_name(number, fits);
        fits(number) ^ self.negated
    }

    pub(super) fn edges(&self, edges: &mut Edges) {
        let values = if self.output { &mut edges.outputs } else { &mut edges.inputs };
        values.extend(self.names.iter().map(|(_, name)| *name));
    }
}
