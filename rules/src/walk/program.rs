//! Compiled rules of a family, in any language.

use super::hook::Hook;
use super::hook_order::{Hooked, Stop, stops};
use super::trace::{ChainId, Place, RuleId};
use crate::cluster::Family;

/// Compiled rules, in which names are numbers. Immutable: any number of packets can be walked through them.
#[derive(Debug, Clone)]
pub struct Program<C> {
    pub(crate) family: Family,
    /// The chains' rules, and their names, in the same order.
    pub(crate) spans: Vec<Span>,
    pub(crate) names: Vec<Names>,
    /// The base chains, the oldest first.
    pub(crate) hooked: Vec<Hooked>,
    /// Whether connections are translated even without a nat chain.
    pub(crate) translates: bool,
    /// What a packet traverses at each hook, in the order of priorities.
    pub(crate) stops: [Vec<Stop>; Hook::ALL.len()],
    /// The conditions and effects of the rules.
    pub(crate) code: C,
}

/// The rules of a chain, and its policy. It is small, because a packet passes many chains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The position of the chain's index, if it has one.
    pub(crate) index: Option<u32>,
    /// Whether the policy of a base chain is to drop.
    pub(crate) drops: bool,
}

/// The name of a chain.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) table: Box<str>,
    pub(crate) chain: Box<str>,
}

impl<C> Program<C> {
    /// Creates a program without rules.
    pub(crate) fn empty(family: Family, code: C) -> Self {
        Self {
            family,
            spans: Vec::new(),
            names: Vec::new(),
            hooked: Vec::new(),
            translates: false,
            stops: Default::default(),
            code,
        }
    }

    /// Orders the stops of each hook.
    pub(crate) fn arrange(&mut self) {
        self.stops = Hook::ALL.map(|hook| stops(hook, &self.hooked, self.translates));
    }

    pub(crate) fn span(&self, chain: u32) -> Span {
        self.spans[chain as usize]
    }

    /// Returns the first rule of a chain. The others follow it.
    pub(super) fn first_rule(&self, chain: u32) -> u32 {
        self.span(chain).first
    }

    /// Returns the family of the packets that traverse these rules. Other packets pass.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end as usize)
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of a rule of this program.
    ///
    /// # Panics
    ///
    /// If the rule is from another, larger program.
    pub fn place(&self, rule: RuleId) -> Place<'_> {
        assert!((rule.0 as usize) < self.len(), "a rule of another program");
        // Empty chains start where the next one does, so the rule belongs to the last chain that starts at or before it.
        let position = self.spans.partition_point(|span| span.first <= rule.0) - 1;
        let (names, first) = (&self.names[position], self.spans[position].first);
        Place { table: &names.table, chain: &names.chain, rule: (rule.0 - first) as usize + 1 }
    }

    /// The name of a chain, by its position.
    pub(crate) fn chain_name(&self, chain: u32) -> &str {
        &self.names[chain as usize].chain
    }

    /// The table and name of a chain of this program.
    ///
    /// # Panics
    ///
    /// If the chain is from another, larger program.
    pub fn chain(&self, chain: ChainId) -> (&str, &str) {
        let names = &self.names[chain.0 as usize];
        (&names.table, &names.chain)
    }
}
