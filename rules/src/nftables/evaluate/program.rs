//! Tables made ready for walking.

use super::action::Action;
use super::condition::Condition;
use super::lookup::Elements;
use crate::cluster::Family;
use crate::nftables::Name;
use crate::walk::{ChainId, Hook, Place, RuleId, Stop};

/// The tables of a family, in which names are numbers. Immutable: any number of packets may walk through them.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) family: Family,
    /// The rules of all chains, chain after chain.
    pub(super) rules: Vec<Rule>,
    /// The conditions of all rules, rule after rule.
    pub(super) conditions: Vec<Condition>,
    /// What all rules do, rule after rule.
    pub(super) actions: Vec<Action>,
    pub(super) chains: Vec<Chain>,
    pub(super) sets: Vec<Elements>,
    /// What a packet meets at each hook.
    pub(super) stops: [Vec<Stop>; Hook::ALL.len()],
}

/// A rule: where its conditions and actions begin. They end where those of the next rule begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) first_condition: u32,
    pub(super) first_action: u32,
}

/// A chain: its names, its rules, and whether its policy is to drop.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) table: Name,
    pub(super) name: Name,
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) drops: bool,
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
        let position = self.chains.partition_point(|chain| chain.first <= rule.0) - 1;
        let chain = &self.chains[position];
        Place { table: &chain.table, chain: &chain.name, rule: (rule.0 - chain.first) as usize + 1 }
    }

    /// The table and name of a hook's chain of this program.
    ///
    /// # Panics
    ///
    /// Where the chain is of another, larger program.
    pub fn chain(&self, chain: ChainId) -> (&str, &str) {
        let chain = &self.chains[chain.0 as usize];
        (&chain.table, &chain.name)
    }

    pub(super) fn conditions(&self, rule: u32) -> &[Condition] {
        let first = self.rules[rule as usize].first_condition as usize;
        let end = self.rules.get(rule as usize + 1).map_or(self.conditions.len(), |next| next.first_condition as usize);
        &self.conditions[first..end]
    }

    pub(super) fn actions(&self, rule: u32) -> &[Action] {
        let first = self.rules[rule as usize].first_action as usize;
        let end = self.rules.get(rule as usize + 1).map_or(self.actions.len(), |next| next.first_action as usize);
        &self.actions[first..end]
    }
}
