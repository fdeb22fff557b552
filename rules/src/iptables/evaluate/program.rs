//! Compiled rule sets.

use super::index::Index;
use crate::iptables::matches::Condition;
use crate::iptables::targets::Action;
use crate::walk;

/// A compiled iptables rule set.
pub type Program = walk::Program<Code>;

/// The compiled rules of a rule set.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// The rules of all chains, chain after chain.
    pub(super) rules: Vec<Rule>,
    /// The conditions of all rules, rule after rule.
    pub(super) conditions: Vec<Condition>,
    pub(super) indexes: Vec<Index>,
}

/// A rule: the positions of its conditions, and its target.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) first_condition: u32,
    pub(super) end_of_conditions: u32,
    pub(super) action: Action,
}

impl Code {
    pub(super) fn conditions(&self, rule: &Rule) -> &[Condition] {
        &self.conditions[rule.first_condition as usize..rule.end_of_conditions as usize]
    }
}
