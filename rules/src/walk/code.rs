//! The interface that each language of rules implements.

use super::chain_position::{Next, Pass};
use super::program::Span;
use super::trace::Trace;
use super::walker::Walker;

/// The conditions and effects of rules in a language. Rules are numbered across all chains, chain after chain.
pub(crate) trait Code {
    /// Returns the first rule of a chain, at or after `from`, that a packet may match.
    fn next_rule<T: Trace>(&self, span: Span, from: u32, _: &Walker<T>) -> Option<u32> {
        (from < span.end).then_some(from)
    }

    /// Evaluates the conditions of a rule and, if they hold, its effect.
    fn evaluate_rule<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, rule: u32) -> Next;
}
