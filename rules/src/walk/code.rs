//! What each language of rules implements.

use super::pass::{Next, Pass};
use super::program::Span;
use super::trace::Trace;
use super::walker::Walker;

/// What rules of a language ask and do. They are numbered through all chains, chain after chain.
pub(crate) trait Code {
    /// The first rule of a chain, at or behind a rule of it, that a packet may match.
    fn next_rule<T: Trace>(&self, span: Span, from: u32, _: &Walker<T>) -> Option<u32> {
        (from < span.end).then_some(from)
    }

    /// Asks a rule for its conditions, and carries it out where they hold.
    fn meet<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, rule: u32) -> Next;
}
