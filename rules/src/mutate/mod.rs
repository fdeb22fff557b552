//! Rule sets with one thing wrong, to see whether anybody notices.
//!
//! [`changes`] lists what can go wrong with a rule set, without making any of it: each [`Change`] is one [`Operator`] at one
//! rule. [`Change::apply`] makes the mutant. A mutant that no kernel takes (a loop of chains, a target where it cannot stand) is
//! left out: nobody needs a test to find it.

mod operators;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::cluster::Family;
use crate::iptables::evaluate::Program;
use crate::iptables::{ChainName, Rule, RuleSet, TableName, print_rule};

pub use operators::Operator;

/// One thing that goes wrong with a rule set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What goes wrong.
    pub operator: Operator,
    /// The table.
    pub table: TableName,
    /// The chain.
    pub chain: ChainName,
    /// The position of the rule in it, from 1.
    pub rule: usize,
    /// The rule as iptables-save writes it.
    pub text: String,
    edit: Edit,
}

/// What becomes of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Edit {
    Remove,
    SwapWithNext,
    Replace(Box<Rule>),
}

impl Change {
    /// The rule set with this change; the rule set must be the one that the change was found in.
    #[must_use]
    pub fn apply(&self, rules: &RuleSet) -> RuleSet {
        let mut mutant = rules.clone();
        let mut chains = mutant.table_mut(self.table).chains.iter_mut();
        if let Some(chain) = chains.find(|chain| chain.name == self.chain) {
            let at = self.rule - 1;
            match &self.edit {
                Edit::Remove => drop(chain.rules.remove(at)),
                Edit::SwapWithNext => chain.rules.swap(at, at + 1),
                Edit::Replace(rule) => chain.rules[at] = (**rule).clone(),
            }
        }
        mutant
    }

    /// What stands there instead, as iptables-save writes it; nothing where nothing does, or only the order is another.
    pub fn instead(&self, family: Family) -> Option<String> {
        match &self.edit {
            Edit::Replace(rule) => Some(print_rule(family, &self.chain, rule).trim_end().to_owned()),
            Edit::Remove | Edit::SwapWithNext => None,
        }
    }
}

/// As a person reads it: `lost negation, table nat, chain KUBE-SVC-X, rule 1: -A KUBE-SVC-X ! -s 10.244.0.0/16 ...`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, table, chain, rule, text, .. } = self;
        write!(f, "{operator}, table {table}, chain {chain}, rule {rule}: {text}")
    }
}

/// Everything that can go wrong with a rule set, in the order of its rules.
pub fn changes(rules: &RuleSet) -> Vec<Change> {
    let mut changes = Vec::new();
    for table in &rules.tables {
        for chain in &table.chains {
            for (at, rule) in chain.rules.iter().enumerate() {
                let text = print_rule(rules.family, &chain.name, rule).trim_end().to_owned();
                let found = operators::edits(rules.family, table, &chain.rules[at..]);
                changes.extend(found.into_iter().map(|(operator, edit)| Change {
                    operator,
                    table: table.name,
                    chain: chain.name.clone(),
                    rule: at + 1,
                    text: text.clone(),
                    edit,
                }));
            }
        }
    }
    changes
}

/// Some of several things, chosen by a seed: always the same of the same, in their order.
pub fn sample<T>(mut all: Vec<T>, number: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    while all.len() > number {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        all.remove(((mixed ^ (mixed >> 31)) % all.len() as u64) as usize);
    }
    all
}

/// Whether a kernel takes a rule set.
pub fn is_sound(rules: &RuleSet) -> bool {
    Program::compile(rules).is_ok()
}
