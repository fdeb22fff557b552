//! Rules of a family made ready for walking, whatever language they are written in.

use super::hook::Hook;
use super::hook_order::{Hooked, Stop, stops};
use super::trace::{ChainId, Place, RuleId};
use crate::cluster::Family;

/// Rules in which names are numbers. Immutable: any number of packets may walk through them.
#[derive(Debug, Clone)]
pub struct Program<C> {
    pub(crate) family: Family,
    /// The chains' rules, and their names, in the same order.
    pub(crate) spans: Vec<Span>,
    pub(crate) names: Vec<Names>,
    /// The chains that hooks have, the oldest first.
    pub(crate) hooked: Vec<Hooked>,
    /// Whether connections are translated also where no chain does so.
    pub(crate) translates: bool,
    /// What a packet traverses at each hook, in the order of priorities.
    pub(crate) stops: [Vec<Stop>; Hook::ALL.len()],
    /// The conditions and effects of the rules.
    pub(crate) code: C,
}

/// The places of the rules of a chain, and the outcome of packets at its end. Small, as a packet passes many chains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The position of the language's index, for chains that have one.
    pub(crate) index: Option<u32>,
    /// Whether the policy of a hook's chain is to drop.
    pub(crate) drops: bool,
}

/// What a chain is called.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) table: Box<str>,
    pub(crate) chain: Box<str>,
}

impl<C> Program<C> {
    /// No rules yet.
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

    /// Orders what each hook has.
    pub(crate) fn arrange(&mut self) {
        self.stops = Hook::ALL.map(|hook| stops(hook, &self.hooked, self.translates));
    }

    pub(crate) fn span(&self, chain: u32) -> Span {
        self.spans[chain as usize]
    }

    /// The first rule of a chain. The others follow it.
    pub(super) fn first_rule(&self, chain: u32) -> u32 {
        self.span(chain).first
    }

    /// The family of the packets that traverse these rules. Others pass.
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end as usize)
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of a rule of this program.
    ///
    /// # Panics
    ///
    /// Where the rule is of another, larger program.
    pub fn place(&self, rule: RuleId) -> Place<'_> {
        assert!((rule.0 as usize) < self.len(), "a rule of another program");
        // Empty chains start where the next one does, so the last chain that starts at or before the rule has it.
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
    /// Where the chain is of another, larger program.
    pub fn chain(&self, chain: ChainId) -> (&str, &str) {
        let names = &self.names[chain.0 as usize];
        (&names.table, &names.chain)
    }
}
