//! Compiled tables.

use crate::nftables::conditions::Comparison;
use crate::nftables::elements::Elements;
use crate::nftables::statements::Action;
use crate::walk::{self, Start};

/// The compiled tables of a family.
pub type Program = walk::Program<Code>;

/// The compiled rules of tables.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// The first numbers of rules and chains.
    pub(super) start: Start,
    /// The rules of all chains, chain after chain.
    pub(super) rules: Vec<Rule>,
    /// The conditions of all rules, rule after rule.
    pub(super) conditions: Vec<Comparison>,
    /// The actions of all rules, rule after rule.
    pub(super) actions: Vec<Action>,
    pub(super) sets: Vec<Elements>,
}

/// A rule: the positions of its first condition and action. They end where those of the next rule start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) first_condition: u32,
    pub(super) first_action: u32,
}

impl Code {
    /// Returns the number after that of the last rule.
    pub(super) fn end(&self) -> u32 {
        self.start.rule + self.rules.len() as u32
    }

    pub(super) fn conditions(&self, rule: u32) -> &[Comparison] {
        let rule = (rule - self.start.rule) as usize;
        let first = self.rules[rule].first_condition as usize;
        let end = self.rules.get(rule + 1).map_or(self.conditions.len(), |next| next.first_condition as usize);
        &self.conditions[first..end]
    }

    pub(super) fn actions(&self, rule: u32) -> &[Action] {
        let rule = (rule - self.start.rule) as usize;
        let first = self.rules[rule].first_action as usize;
        let end = self.rules.get(rule + 1).map_or(self.actions.len(), |next| next.first_action as usize);
        &self.actions[first..end]
    }
}
