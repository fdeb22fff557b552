//! Tables and their content.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::conditions::Condition;
use super::dynamic::Dynamic;
use super::key::{Datatype, Key};
use super::name::Name;
use super::statements::Statement;
use super::verdict::Verdict;
use crate::cluster::Family;
use crate::walk::Hook;

/// The tables of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruleset {
    /// The tables, in creation order.
    pub tables: Vec<Table>,
}

impl Ruleset {
    /// Returns kube-proxy's table of a family.
    pub fn table(&self, family: Family) -> Option<&Table> {
        self.tables.iter().find(|table| table.family == family)
    }
}

/// A table of one address family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// `ip` or `ip6`.
    pub family: Family,
    /// The name, unique in its family.
    pub name: Name,
    /// The comment.
    pub comment: Option<Arc<str>>,
    /// Sets and maps, in creation order.
    pub sets: Vec<Set>,
    /// The chains, in creation order.
    pub chains: Vec<Chain>,
}

impl Table {
    /// Returns the chain of this name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| &*chain.name == name)
    }

    /// Adds empty chains and sets for those that rules and maps name but that do not exist.
    pub(crate) fn add_missing(&mut self) {
        self.add_missing_chains();
        self.add_missing_sets();
    }

    fn add_missing_chains(&mut self) {
        let of_rules = self.chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements);
        let of_maps = self.sets.iter().flat_map(|set| &set.elements).filter_map(|one| one.verdict.as_ref()?.chain());
        let mut named: Vec<Name> = of_rules.flat_map(Statement::chains).chain(of_maps).cloned().collect();
        named.sort();
        named.dedup();
        let known: HashSet<&str> = self.chains.iter().map(|chain| &*chain.name).collect();
        let missing = named.into_iter().filter(|name| !known.contains(&**name));
        let missing: Vec<Chain> =
            missing.map(|name| Chain { name, base: None, comment: None, rules: Vec::new() }).collect();
        self.chains.extend(missing);
    }

    fn add_missing_sets(&mut self) {
        let rules = || self.chains.iter().flat_map(|chain| &chain.rules);
        let of_conditions = rules().flat_map(|rule| &rule.conditions).filter_map(Condition::set);
        let of_conditions = of_conditions.map(|asked| (SetKind::Set, asked));
        let of_statements = rules().flat_map(|rule| &rule.statements).filter_map(|statement| {
            let is_map = matches!(statement, Statement::Lookup(..));
            Some((if is_map { SetKind::VerdictMap } else { SetKind::Set }, statement.set()?))
        });
        let known: HashSet<&str> = self.sets.iter().map(|set| &*set.name).collect();
        let mut missing: BTreeMap<Name, Set> = BTreeMap::new();
        for (kind, (name, key)) in of_conditions.chain(of_statements).filter(|(_, (name, _))| !known.contains(&***name))
        {
            let key = key.into_iter().map(|part| part.datatype(self.family)).collect();
            let empty = || Set { name: name.clone(), kind, key, comment: None, dynamic: None, elements: Vec::new() };
            missing.entry(name.clone()).or_insert_with(empty);
        }
        self.sets.extend(missing.into_values());
        self.find_dynamic_sets();
    }

    /// Returns whether rules or maps name chains or sets that do not exist. The kernel cannot have such a table, so it is an excerpt.
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

    /// Makes each set to which a rule adds keys dynamic. nft prints neither the flag in all releases nor a timeout in all such sets.
    pub(super) fn find_dynamic_sets(&mut self) {
        let rules = self.chains.iter().flat_map(|chain| &chain.rules);
        let changed: HashSet<&str> =
            rules.flat_map(|rule| &rule.statements).flat_map(Statement::changed_sets).collect();
        for set in self.sets.iter_mut().filter(|set| set.dynamic.is_none() && changed.contains(&*set.name)) {
            set.dynamic = Some(Dynamic::of(None, None));
        }
    }

    /// Returns the set or map of this name.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| &*set.name == name)
    }
}

/// A set of keys, or a map from keys to verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The name.
    pub name: Name,
    /// Set or verdict map.
    pub kind: SetKind,
    /// The types of a key's parts.
    pub key: Vec<Datatype>,
    /// The comment.
    pub comment: Option<Arc<str>>,
    /// Size and timeout if packets add keys; `None` for a constant set.
    pub dynamic: Option<Dynamic>,
    /// The initial elements.
    pub elements: Vec<Element>,
}

impl Set {
    /// Returns whether the kernel accepts another declaration as the same set.
    pub(super) fn is_declared_as(&self, other: &Self) -> bool {
        (self.kind, &self.key, self.dynamic) == (other.kind, &other.key, other.dynamic)
    }
}

/// The kind of a set: a set of keys, or a verdict map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    /// Keys only.
    Set,
    /// Keys with verdicts.
    VerdictMap,
}

impl SetKind {
    /// Returns nft's keyword: `set` or `map`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::VerdictMap => "map",
        }
    }
}

/// A key of a set, with its verdict in a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its parts.
    pub key: Vec<Key>,
    /// The comment, at most 128 bytes.
    pub comment: Option<Arc<str>>,
    /// The verdict for packets with this key.
    pub verdict: Option<Verdict>,
}

/// A chain of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The name.
    pub name: Name,
    /// The hook of a base chain; `None` for a regular chain.
    pub base: Option<BaseChain>,
    /// The comment.
    pub comment: Option<Arc<str>>,
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// Creates a regular chain.
    pub fn regular(name: Name) -> Self {
        Self { name, base: None, comment: None, rules: Vec::new() }
    }
}

/// The hook and policy of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BaseChain {
    /// True for type `nat`, false for type `filter`.
    pub nat: bool,
    /// The hook.
    pub hook: Hook,
    /// The priority at the hook, low numbers first; DNAT happens at -100, SNAT at 100.
    pub priority: i32,
    /// True for policy `drop`, false for `accept`, kube-proxy's policy.
    pub drops: bool,
}

/// A rule: if all conditions hold, its statements are executed in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The conditions, in order.
    pub conditions: Vec<Condition>,
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// The comment.
    pub comment: Option<Arc<str>>,
}
