//! Rules of two languages at the same hooks.

use super::chain_position::{Next, Pass};
use super::code::Code;
use super::program::{Program, Span};
use super::trace::Trace;
use super::walker::Walker;

/// The conditions and actions of rules of two languages: rules before a border are of the first, later ones of the second.
#[derive(Debug, Clone)]
pub struct Alongside<A, B> {
    first: A,
    second: B,
    /// The number of the second's first rule.
    border: u32,
}

/// The first numbers of a program that is appended to another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start {
    pub(crate) rule: u32,
    pub(crate) chain: u32,
}

impl<A> Program<A> {
    /// Returns the first numbers for a program that is appended to this one.
    pub(crate) fn end(&self) -> Start {
        Start { rule: self.len() as u32, chain: self.spans.len() as u32 }
    }

    /// Combines two programs on one machine. The second's rules and chains are numbered from [`Self::end`] on; `older` of its base chains
    /// were created before the first program's. Of chains with the same priority, the kernel evaluates the one created last first.
    pub(crate) fn alongside<B>(self, second: Program<B>, older: usize) -> Program<Alongside<A, B>> {
        let border = self.len() as u32;
        let (older, younger) = second.hooked.split_at(older.min(second.hooked.len()));
        let hooked = [older, &self.hooked, younger].concat();
        let mut both = Program {
            family: self.family,
            spans: [self.spans, second.spans].concat(),
            names: self.names.into_iter().chain(second.names).collect(),
            hooked,
            translates: self.translates || second.translates,
            stops: Default::default(),
            code: Alongside { first: self.code, second: second.code, border },
        };
        both.arrange();
        both
    }
}

impl<A: Code, B: Code> Code for Alongside<A, B> {
    fn next_rule<T: Trace>(&self, span: Span, from: u32, walker: &Walker<T>) -> Option<u32> {
        if span.first < self.border {
            self.first.next_rule(span, from, walker)
        } else {
            self.second.next_rule(span, from, walker)
        }
    }

    fn evaluate_rule<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, rule: u32) -> Next {
        if rule < self.border {
            self.first.evaluate_rule(pass, walker, rule)
        } else {
            self.second.evaluate_rule(pass, walker, rule)
        }
    }
}
