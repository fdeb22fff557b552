//! Tables and what they hold.

use std::collections::HashSet;
use std::sync::Arc;

use super::conditions::Condition;
use super::key::{Datatype, Key};
use super::name::Name;
use super::statements::Statement;
use super::verdict::Verdict;
use crate::cluster::Family;
use crate::walk::Hook;

/// The tables of a namespace that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruleset {
    /// The tables, in the order in which they were made.
    pub tables: Vec<Table>,
}

impl Ruleset {
    /// The table of a family, of which kube-proxy has one each.
    pub fn table(&self, family: Family) -> Option<&Table> {
        self.tables.iter().find(|table| table.family == family)
    }
}

/// A table of one address family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// `ip` or `ip6`.
    pub family: Family,
    /// The name, one of its own in its family.
    pub name: Name,
    /// What it is for.
    pub comment: Option<Arc<str>>,
    /// Sets and maps, in the order in which they were made.
    pub sets: Vec<Set>,
    /// The chains, in the order in which they were made.
    pub chains: Vec<Chain>,
}

impl Table {
    /// The chain of a name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| &*chain.name == name)
    }

    /// Adds the chains that rules and maps lead to and that are not there, without rules.
    pub(crate) fn add_missing(&mut self) {
        let of_rules = self.chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements);
        let of_maps = self.sets.iter().flat_map(|set| &set.elements).filter_map(|one| one.verdict.as_ref()?.chain());
        let mut named: Vec<Name> = of_rules.flat_map(Statement::chains).chain(of_maps).cloned().collect();
        named.sort();
        named.dedup();
        let missing = named.into_iter().filter(|name| self.chain(name).is_none());
        let missing: Vec<Chain> =
            missing.map(|name| Chain { name, base: None, comment: None, rules: Vec::new() }).collect();
        self.chains.extend(missing);
    }

    /// Whether rules or maps name chains or sets that are not there. The kernel has no such table: a part of it is shown.
    pub fn lacks_some(&self) -> bool {
        let chains: HashSet<&str> = self.chains.iter().map(|chain| &*chain.name).collect();
        let sets: HashSet<&str> = self.sets.iter().map(|set| &*set.name).collect();
        let lacks_chain = |name: &Name| !chains.contains(&**name);
        let lacks_set = |name: &Name| !sets.contains(&**name);
        let lacks = |rule: &Rule| {
            let asked = rule.conditions.iter().filter_map(Condition::set);
            let mut named = asked.chain(rule.statements.iter().filter_map(Statement::set));
            rule.statements.iter().flat_map(Statement::chains).any(lacks_chain)
                || named.any(|(name, _)| lacks_set(name))
        };
        let mut verdicts =
            self.sets.iter().flat_map(|set| &set.elements).filter_map(|one| one.verdict.as_ref()?.chain());
        verdicts.any(lacks_chain) || self.chains.iter().flat_map(|chain| &chain.rules).any(lacks)
    }

    /// The set or map of a name.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| &*set.name == name)
    }
}

/// A set of keys, or a map from keys to verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The name.
    pub name: Name,
    /// Whether keys have verdicts.
    pub kind: SetKind,
    /// What a key is made of.
    pub key: Vec<Datatype>,
    /// What it is for.
    pub comment: Option<Arc<str>>,
    /// Whether rules add keys.
    pub dynamic: Option<Dynamic>,
    /// What it holds from the start.
    pub elements: Vec<Element>,
}

impl Set {
    /// Whether the kernel takes another set for this one, declared again.
    pub(super) fn is_declared_as(&self, other: &Self) -> bool {
        (self.kind, &self.key, self.dynamic) == (other.kind, &other.key, other.dynamic)
    }
}

/// A set, or a map to verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    /// Keys only.
    Set,
    /// Keys with a verdict each.
    VerdictMap,
}

impl SetKind {
    /// nft's word: `set` or `map`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::VerdictMap => "map",
        }
    }
}

/// A set that rules add keys to, each for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dynamic {
    /// The maximum number of keys.
    pub size: u32,
    /// How many seconds a key stays.
    pub timeout: u32,
}

/// A key of a set, with its verdict in a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its parts.
    pub key: Vec<Key>,
    /// What it is for, at most 128 bytes.
    pub comment: Option<Arc<str>>,
    /// The outcome of packets with this key.
    pub verdict: Option<Verdict>,
}

/// A chain of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The name.
    pub name: Name,
    /// Where packets enter it, if not by jumps only.
    pub base: Option<BaseChain>,
    /// What it is for.
    pub comment: Option<Arc<str>>,
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// A chain that is reached by jumps.
    pub fn regular(name: Name) -> Self {
        Self { name, base: None, comment: None, rules: Vec::new() }
    }
}

/// Where packets enter a chain, and their outcome at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BaseChain {
    /// True for type `nat`, false for type `filter`.
    pub nat: bool,
    /// The hook.
    pub hook: Hook,
    /// The order at the hook, low numbers first; translation of destinations is at -100, of sources at 100.
    pub priority: i32,
    /// True for policy `drop`, false for `accept`, as kube-proxy has it.
    pub drops: bool,
}

/// A rule: if all conditions hold, its statements are run in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The conditions, in order.
    pub conditions: Vec<Condition>,
    /// What is done.
    pub statements: Vec<Statement>,
    /// What it is for.
    pub comment: Option<Arc<str>>,
}
