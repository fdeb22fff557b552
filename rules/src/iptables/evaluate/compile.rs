//! Rule sets into programs.

use std::collections::HashMap;

use super::action::Action;
use super::check::{CompileError, check};
use super::condition::Condition;
use super::index::Index;
use super::lower::conditions;
use super::program::{Code, Program, Rule};
use crate::cluster::Family;
use crate::iptables::{self, Policy, RuleSet, TableName};
use crate::walk::{Hook, Names, Span, Stop};

impl Program {
    /// Makes a rule set ready for walking.
    ///
    /// # Errors
    ///
    /// All mistakes for which the kernel would not load the rules by iptables-nft, and tables whose rules no packet meets.
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

    /// The same with no way to find a rule but to go through its chain.
    pub(super) fn without_index(rules: &RuleSet) -> Result<Self, Vec<CompileError>> {
        check(rules)?;
        let mut program = Self::empty(rules.family, Code::default());
        let mut entries = Entries::default();
        for table in &rules.tables {
            entries.push((table.name, program.add_table(table)));
        }
        for hook in Hook::ALL {
            program.stops[hook as usize] = stops(hook, &entries);
        }
        Ok(program)
    }

    /// Adds the chains of a table; returns those that its hooks have.
    fn add_table(&mut self, table: &iptables::Table) -> [Option<u32>; Hook::ALL.len()] {
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
        Hook::ALL.map(|hook| {
            let is_hook = table.name.builtin_chains().contains(&hook.as_str());
            positions.get(hook.as_str()).copied().filter(|_| is_hook)
        })
    }
}

impl Code {
    fn add_rule(&mut self, rule: &iptables::Rule, family: Family, positions: &HashMap<&str, u32>) {
        let first = self.conditions.len();
        conditions(rule, family, &mut self.conditions);
        // Every chain that is jumped to was found to be there.
        let mut action =
            rule.target.as_ref().map_or(Action::Continue, |target| Action::of(target, |name| positions[name]));
        if action.is_inert() && !self.conditions[first..].iter().any(Condition::has_effect) {
            let all = self.conditions.len();
            self.keep_certain(first);
            if self.conditions.len() < all {
                action = Action::Perhaps;
            }
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

/// The chains that tables have at hooks.
type Entries = Vec<(TableName, [Option<u32>; Hook::ALL.len()])>;

/// The stops of a hook in the order of their priorities: raw -300, connections -200, mangle -150, nat of destinations
/// -100, filter 0, security 50, nat of sources 100 (`netfilter_ipv4.h`).
fn stops(hook: Hook, entries: &Entries) -> Vec<Stop> {
    use TableName::{Filter, Mangle, Nat, Raw, Security};
    let chain = |name: TableName| {
        entries.iter().find(|(table, _)| *table == name).and_then(|(_, chains)| chains[hook as usize])
    };
    let plain = |name: TableName| chain(name).map(|chain| Stop::Chain { chain, reroutes: name == Mangle });
    let nat = || [chain(Nat).map(Stop::Nat), Some(Stop::Translation)];
    let found = match hook {
        Hook::Prerouting | Hook::Output => {
            let first = [plain(Raw), Some(Stop::Lookup), plain(Mangle)];
            [&first[..], &nat()[..], &[plain(Filter), plain(Security)][..]].concat()
        }
        Hook::Input | Hook::Postrouting => [&[plain(Mangle), plain(Filter), plain(Security)][..], &nat()[..]].concat(),
        Hook::Forward => vec![plain(Mangle), plain(Filter), plain(Security)],
    };
    found.into_iter().flatten().collect()
}

/// The chains of a table in an order in which those that a packet meets one after the other are near to each other: a
/// chain, then those that it jumps to, each with its own. The endpoints of a service follow it, and memory is read as
/// it lies.
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
                table.chains[chain].rules.iter().rev().filter_map(|rule| Some(positions[&**rule.next_chain()?])),
            );
        }
    }
    order
}
