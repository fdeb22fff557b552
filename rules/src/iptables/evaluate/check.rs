//! Checks for rule sets that the kernel rejects from iptables-nft, and for tables that no packet enters.

use std::collections::HashMap;

use crate::iptables::{self, ChainName, RuleSet, TableName, Target};
use crate::walk::{Fault, Hook, Lead, faults, reached, starts};

/// An error in a rule set, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table}{}{}: {kind}", chain.as_ref().map(|name| format!(", chain {name}")).unwrap_or_default(),
    rule.map(|number| format!(", rule {number}")).unwrap_or_default())]
pub struct CompileError {
    /// The table.
    pub table: TableName,
    /// The chain.
    pub chain: Option<ChainName>,
    /// The rule, from 1.
    pub rule: Option<usize>,
    /// The kind of error.
    pub kind: CompileErrorKind,
}

/// The kind of an error in a rule set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileErrorKind {
    /// A rule jumps to a chain that does not exist.
    #[error("jumps to chain `{0}`, which does not exist")]
    MissingChain(ChainName),
    /// A rule jumps to a built-in chain.
    #[error("jumps to built-in chain `{0}`")]
    JumpToHook(ChainName),
    /// Jumps form a loop.
    #[error("jump loop: {}", .0.join(" → "))]
    Loop(Vec<ChainName>),
    /// Jumps are nested too deep for nf_tables, which iptables-nft uses; iptables-legacy has no limit.
    #[error("jumps are nested more than 16 deep, which nf_tables rejects (iptables-legacy accepts them)")]
    TooDeep,
    /// A packet may pass this many rules at a base chain; this jump leads to most of them.
    #[error(
        "lets a packet traverse up to {0} rules, which would stall a CPU: repeated jumps to the same chains multiply"
    )]
    TooLong(u64),
    /// A target that the kernel rejects in this table or at this hook.
    #[error("{target} is not allowed {place}")]
    Misplaced {
        /// The target's name.
        target: &'static str,
        /// The table or hook.
        place: String,
    },
    /// A table has rules but no built-in chain.
    #[error("has rules but no built-in chain")]
    NoHook,
    /// A chain is declared twice.
    #[error("is declared twice")]
    Twice,
}

impl CompileErrorKind {
    /// Returns whether rules in a kernel can have this error: rules of iptables-legacy, or an excerpt.
    fn may_be_loaded(&self) -> bool {
        matches!(self, Self::MissingChain(_) | Self::TooDeep | Self::NoHook)
    }
}

/// Checks all tables.
pub(super) fn check(rules: &RuleSet) -> Result<(), Vec<CompileError>> {
    let errors = errors(rules);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns the errors that no rules in a kernel can have, not even as an excerpt.
pub(crate) fn rejections(rules: &RuleSet) -> Vec<CompileError> {
    errors(rules).into_iter().filter(|error| !error.kind.may_be_loaded()).collect()
}

fn errors(rules: &RuleSet) -> Vec<CompileError> {
    let mut errors = Vec::new();
    for table in &rules.tables {
        Table::new(table, &mut errors).check();
    }
    errors
}

struct Table<'a> {
    table: &'a iptables::Table,
    positions: HashMap<&'a str, usize>,
    errors: &'a mut Vec<CompileError>,
}

impl<'a> Table<'a> {
    fn new(table: &'a iptables::Table, errors: &'a mut Vec<CompileError>) -> Self {
        let positions = table.chains.iter().enumerate().map(|(position, chain)| (&*chain.name, position)).collect();
        Self { table, positions, errors }
    }

    fn check(&mut self) {
        let before = self.errors.len();
        self.check_names();
        let hooks = Hook::ALL.into_iter().filter_map(|hook| Some((hook, *self.positions.get(hook.as_str())?)));
        let hooks: Vec<(Hook, usize)> = hooks.collect();
        let leads = self.leads();
        let lengths: Vec<usize> = self.table.chains.iter().map(|chain| chain.rules.len()).collect();
        for (chain, rule, fault) in faults(&leads, &lengths, starts(hooks.iter().map(|(_, chain)| *chain), leads.len()))
        {
            let name = |chain: usize| self.table.chains[chain].name.clone();
            let kind = match fault {
                Fault::Loop(chains) => CompileErrorKind::Loop(chains.into_iter().map(name).collect()),
                Fault::TooDeep => CompileErrorKind::TooDeep,
                Fault::TooLong(rules) => CompileErrorKind::TooLong(rules),
            };
            self.error(Some(chain), Some(rule), kind);
        }
        if self.errors.len() == before {
            self.check_targets(&leads, &hooks);
        }
    }

    /// Returns the existing chains that the rules of every chain jump to.
    fn leads(&self) -> Vec<Vec<Lead>> {
        let of_rule =
            |(number, rule): (usize, &iptables::Rule)| Some((number, *self.positions.get(&**rule.next_chain()?)?));
        let of_chain = |chain: &iptables::Chain| chain.rules.iter().enumerate().filter_map(of_rule).collect();
        self.table.chains.iter().map(of_chain).collect()
    }

    fn error(&mut self, chain: Option<usize>, rule: Option<usize>, kind: CompileErrorKind) {
        let chain = chain.map(|chain| self.table.chains[chain].name.clone());
        let rule = rule.map(|rule| rule + 1);
        self.errors.push(CompileError { table: self.table.name, chain, rule, kind });
    }

    fn check_names(&mut self) {
        let table = self.table;
        let hooks = table.name.builtin_chains();
        let entered = table.chains.iter().any(|chain| hooks.contains(&&*chain.name));
        if !entered && table.chains.iter().any(|chain| !chain.rules.is_empty()) {
            self.error(None, None, CompileErrorKind::NoHook);
        }
        for (position, chain) in table.chains.iter().enumerate() {
            if self.positions[&*chain.name] != position {
                self.error(Some(position), None, CompileErrorKind::Twice);
            }
            for (number, rule) in chain.rules.iter().enumerate() {
                let Some(next) = rule.next_chain() else { continue };
                if hooks.contains(&&**next) {
                    self.error(Some(position), Some(number), CompileErrorKind::JumpToHook(next.clone()));
                } else if !self.positions.contains_key(&**next) {
                    self.error(Some(position), Some(number), CompileErrorKind::MissingChain(next.clone()));
                }
            }
        }
    }

    fn check_targets(&mut self, leads: &[Vec<Lead>], hooks: &[(Hook, usize)]) {
        let table = self.table;
        let reached = reached(leads, hooks);
        for (position, chain) in table.chains.iter().enumerate() {
            for (number, rule) in chain.rules.iter().enumerate() {
                let Some((name, only, allowed)) = rule.target.as_ref().and_then(Target::restriction) else { continue };
                let misplaced = |place: String| CompileErrorKind::Misplaced { target: name, place };
                if table.name != only {
                    self.error(
                        Some(position),
                        Some(number),
                        misplaced(format!("in table {}, only in {only}", table.name)),
                    );
                }
                let wrong: Vec<Hook> = reached[position].without(allowed).collect();
                if table.name == only && !wrong.is_empty() {
                    let place = wrong.iter().map(|hook| format!("at {hook}")).collect::<Vec<_>>().join(" or ");
                    self.error(Some(position), Some(number), misplaced(place));
                }
            }
        }
    }
}
