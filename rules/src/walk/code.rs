//! What each language of rules implements.

use super::chain_position::{Next, Pass};
use super::program::Span;
use super::trace::Trace;
use super::walker::Walker;

/// The conditions and effects of rules in a language. They are numbered through all chains, chain after chain.
pub(crate) trait Code {
    /// The first rule of a chain, at or after a rule of it, that a packet may match.
    fn next_rule<T: Trace>(&self, span: Span, from: u32, _: &Walker<T>) -> Option<u32> {
        (from < span.end).then_some(from)
    }

    /// Evaluates the conditions of a rule, and if they hold, its effect.
    fn evaluate_rule<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, rule: u32) -> Next;
}
