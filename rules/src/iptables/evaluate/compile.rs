//! Compilation of rule sets to programs.

use std::collections::HashMap;

use super::check::{CompileError, check};
use super::index::Index;
use super::lower::conditions;
use super::program::{Code, Program, Rule};
use crate::cluster::Family;
use crate::iptables::matches::Condition;
use crate::iptables::targets::Action;
use crate::iptables::{self, Policy, RuleSet, TableName};
use crate::walk::{DESTINATIONS, Hook, Hooked, Kind, Names, SOURCES, Span};

impl Program {
    /// Compiles a rule set.
    ///
    /// # Errors
    ///
    /// All errors for which the kernel rejects the rules from iptables-nft, and tables whose rules no packet reaches.
    pub fn compile(rules: &RuleSet) -> Result<Self, Vec<CompileError>> {
        let mut program = Self::without_index(rules)?;
        for chain in 0..program.spans.len() {
            let Span { first, end, .. } = program.spans[chain];
            let code = &mut program.code;
            let rules = code.rules[first as usize..end as usize].iter().map(|rule| code.conditions(rule));
            if let Some(index) = Index::of(first, rules) {
                program.spans[chain].index = Some(code.indexes.len() as u32);
                code.indexes.push(index);
            }
        }
        Ok(program)
    }

    /// Compiles the chains of a table, so that each can be entered, even if the table is incomplete. The result of a rule that jumps to
    /// a missing chain is unknown.
    pub(crate) fn compile_chains(table: &iptables::Table, family: Family) -> Self {
        let mut program = Self::empty(family, Code::default());
        program.add_table(table);
        program
    }

    /// Compiles a rule set without indexes: rules are found by a linear search of their chain.
    pub(super) fn without_index(rules: &RuleSet) -> Result<Self, Vec<CompileError>> {
        check(rules)?;
        let mut program = Self::empty(rules.family, Code::default());
        // The kernel's nat tables translate packets of known connections, whether or not a rule matches.
        program.translates = true;
        for table in &rules.tables {
            program.add_table(table);
        }
        program.arrange();
        Ok(program)
    }

    /// Adds the chains of a table.
    fn add_table(&mut self, table: &iptables::Table) {
        let first = self.spans.len() as u32;
        let order = order(table);
        let positions: HashMap<&str, u32> =
            (first..).zip(&order).map(|(at, chain)| (&*table.chains[*chain].name, at)).collect();
        for chain in order.into_iter().map(|chain| &table.chains[chain]) {
            let first = self.code.rules.len() as u32;
            for rule in &chain.rules {
                self.code.add_rule(rule, self.family, &positions);
            }
            let (end, drops) = (self.code.rules.len() as u32, chain.policy == Some(Policy::Drop));
            self.spans.push(Span { first, end, index: None, drops });
            self.names.push(Names { table: table.name.as_str().into(), chain: (&*chain.name).into() });
        }
        for hook in Hook::ALL.into_iter().filter(|hook| table.name.builtin_chains().contains(&hook.as_str())) {
            let (priority, kind) = hooked(table.name, hook);
            let chain = positions.get(hook.as_str()).copied();
            self.hooked.extend(chain.map(|chain| Hooked { hook, priority, chain, kind }));
        }
    }
}

impl Code {
    fn add_rule(&mut self, rule: &iptables::Rule, family: Family, positions: &HashMap<&str, u32>) {
        let first = self.conditions.len();
        conditions(rule, family, &mut self.conditions);
        let position = |name: &str| positions.get(name).copied();
        let mut action = rule.target.as_ref().map_or(Action::Continue, |target| target.compile(position));
        if action.is_inert() && !self.conditions[first..].iter().any(Condition::has_effect) {
            let all = self.conditions.len();
            self.keep_certain(first);
            if self.conditions.len() < all {
                action = Action::Maybe;
            }
        }
        let (first_condition, end_of_conditions) = (first as u32, self.conditions.len() as u32);
        self.rules.push(Rule { first_condition, end_of_conditions, action });
    }

    /// Removes random and unknown matches from a rule without effect.
    fn keep_certain(&mut self, first: usize) {
        let own = self.conditions.drain(first..).filter(|condition| !condition.is_uncertain()).collect::<Vec<_>>();
        self.conditions.extend(own);
    }
}

/// Returns the priority and type of a table's chain at a hook (`netfilter_ipv4.h`).
fn hooked(table: TableName, hook: Hook) -> (i32, Kind) {
    let plain = Kind::Filter { reroutes: false };
    match table {
        TableName::Raw => (-300, plain),
        TableName::Mangle => (-150, Kind::Filter { reroutes: true }),
        TableName::Nat if hook.translates_destination() => (DESTINATIONS, Kind::Nat),
        TableName::Nat => (SOURCES, Kind::Nat),
        TableName::Filter => (0, plain),
        TableName::Security => (50, plain),
    }
}

/// Orders the chains of a table by traversal: a chain, then those that it jumps to, depth first. So chains that are traversed together are
/// close in memory.
fn order(table: &iptables::Table) -> Vec<usize> {
    let positions: HashMap<&str, usize> =
        table.chains.iter().enumerate().map(|(position, chain)| (&*chain.name, position)).collect();
    let mut order = Vec::with_capacity(table.chains.len());
    let mut placed = vec![false; table.chains.len()];
    let hooks = Hook::ALL.into_iter().filter_map(|hook| positions.get(hook.as_str()).copied());
    // Chains to place, the next one last.
    let mut todo: Vec<usize> = (0..table.chains.len()).rev().collect();
    todo.extend(hooks);
    while let Some(chain) = todo.pop() {
        if !placed[chain] {
            placed[chain] = true;
            order.push(chain);
            todo.extend(
                table.chains[chain].rules.iter().rev().filter_map(|rule| positions.get(&**rule.next_chain()?).copied()),
            );
        }
    }
    order
}
