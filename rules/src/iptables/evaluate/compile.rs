//! Rule sets into programs.

use std::collections::HashMap;

use super::action::Action;
use super::check::{CompileError, check};
use super::condition::{Condition, conditions};
use super::index::Index;
use super::program::{Chain, Program, Rule};
use crate::iptables::{self, RuleSet, TableName};
use crate::walk::Hook;

impl Program {
    /// Makes a rule set ready for walking.
    ///
    /// # Errors
    ///
    /// All mistakes for which the kernel would not load the rules, and tables whose rules no packet meets.
    pub fn compile(rules: &RuleSet) -> Result<Self, Vec<CompileError>> {
        let mut program = Self::without_index(rules)?;
        for chain in &mut program.chains {
            let (first, end) = (chain.first as usize, chain.end as usize);
            chain.index = Index::of(&program.rules[first..end], &program.conditions, first);
        }
        Ok(program)
    }

    /// The same with no way to find a rule but to go through its chain.
    pub(super) fn without_index(rules: &RuleSet) -> Result<Self, Vec<CompileError>> {
        check(rules)?;
        let mut program = Self {
            family: rules.family,
            rules: Vec::new(),
            conditions: Vec::new(),
            chains: Vec::new(),
            entries: [[None; Hook::ALL.len()]; TableName::ALL.len()],
        };
        for table in &rules.tables {
            program.add_table(table);
        }
        Ok(program)
    }

    fn add_table(&mut self, table: &iptables::Table) {
        let first = self.chains.len() as u32;
        let positions: HashMap<&str, u32> =
            (first..).zip(&table.chains).map(|(at, chain)| (&*chain.name, at)).collect();
        for hook in Hook::ALL {
            let is_hook = table.name.builtin_chains().contains(&hook.as_str());
            let chain = positions.get(hook.as_str()).copied().filter(|_| is_hook);
            self.entries[table.name as usize][hook as usize] = chain;
        }
        for chain in &table.chains {
            let first = self.rules.len() as u32;
            for rule in &chain.rules {
                self.add_rule(rule, &positions);
            }
            let end = self.rules.len() as u32;
            let (table, name, policy) = (table.name, chain.name.clone(), chain.policy);
            self.chains.push(Chain { table, name, first, end, policy, index: None });
        }
    }

    fn add_rule(&mut self, rule: &iptables::Rule, positions: &HashMap<&str, u32>) {
        let first = self.conditions.len();
        conditions(rule, self.family, &mut self.conditions);
        // Every chain that is jumped to was found to be there.
        let action = rule.target.as_ref().map_or(Action::Continue, |target| Action::of(target, |name| positions[name]));
        if action.is_inert() && !self.conditions[first..].iter().any(Condition::has_effect) {
            self.keep_certain(first);
        }
        let (first_condition, end_of_conditions) = (first as u32, self.conditions.len() as u32);
        self.rules.push(Rule { first_condition, end_of_conditions, action });
    }

    /// Takes chance and what is not known out of the conditions of a rule that changes nothing either way.
    fn keep_certain(&mut self, first: usize) {
        let own = self.conditions.drain(first..).filter(|condition| !condition.is_uncertain()).collect::<Vec<_>>();
        self.conditions.extend(own);
    }
}
