//! A rule set made ready for walking.

use super::action::Action;
use super::condition::Condition;
use super::index::Index;
use crate::cluster::Family;
use crate::iptables::{ChainName, Policy, TableName};
use crate::walk::{ChainId, Hook, Place, RuleId, Stop};

/// A rule set in which names are numbers. Immutable: any number of packets may walk through it.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) family: Family,
    /// The rules of all chains, chain after chain.
    pub(super) rules: Vec<Rule>,
    /// The conditions of all rules, rule after rule.
    pub(super) conditions: Vec<Condition>,
    /// The chains' rules, and what the chains are, in the same order.
    pub(super) spans: Vec<Span>,
    pub(super) chains: Vec<Chain>,
    pub(super) indexes: Vec<Index>,
    /// What a packet meets at each hook.
    pub(super) stops: [Vec<Stop>; Hook::ALL.len()],
}

/// A rule: where its conditions stand, and what it does.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) first_condition: u32,
    pub(super) end_of_conditions: u32,
    pub(super) action: Action,
}

/// Where the rules of a chain stand. Small, as a packet meets many chains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: u32,
    pub(super) end: u32,
    /// The position of the index, for chains with many rules.
    pub(super) index: Option<u32>,
}

/// What else there is to know of a chain.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) table: TableName,
    pub(super) name: ChainName,
    /// For chains of the kernel.
    pub(super) policy: Option<Policy>,
}

impl Program {
    /// The family of the packets that meet these rules. Others pass.
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where a rule of this program stands.
    ///
    /// # Panics
    ///
    /// Where the rule is of another, larger program.
    pub fn place(&self, rule: RuleId) -> Place<'_> {
        assert!((rule.0 as usize) < self.rules.len(), "a rule of another program");
        // Empty chains start where the next one does, so the last chain that starts at or before the rule has it.
        let position = self.spans.partition_point(|span| span.first <= rule.0) - 1;
        let (chain, first) = (&self.chains[position], self.spans[position].first);
        Place { table: chain.table.as_str(), chain: &chain.name, rule: (rule.0 - first) as usize + 1 }
    }

    /// The table and name of a hook's chain of this program.
    ///
    /// # Panics
    ///
    /// Where the chain is of another, larger program.
    pub fn chain(&self, chain: ChainId) -> (&str, &str) {
        let chain = &self.chains[chain.0 as usize];
        (chain.table.as_str(), &chain.name)
    }

    pub(super) fn conditions(&self, rule: &Rule) -> &[Condition] {
        &self.conditions[rule.first_condition as usize..rule.end_of_conditions as usize]
    }
}
