//! The missing rules that cause a failure: kube-proxy writes them, a node lacks them, and with them the class keeps its promise.
//!
//! A reduction that only requires the same failure would also remove the rules around the gap, since the flow fails without them, too.

use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, Match, TableName};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::delta::shortest;
use super::rules::units;
use crate::scenario::{Install, OtherRules, Place, Scenario};

/// The chains, sets and maps of nodes that lack rules or elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Absence(Vec<Lacking>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lacking {
    node: String,
    family: Family,
    /// The table of iptables; nftables has one of a family.
    table: Option<TableName>,
    chain: String,
    /// The number of rules that it has, all of which are kept.
    shown: usize,
}

/// The most chains that are tried.
const MAX: usize = 64;

/// The most rules of a chain that are kept because it lacks one.
const MAX_SHOWN: usize = 8;

impl Absence {
    /// The smallest set of chains such that the scenario `holds` if they are completed.
    pub(super) fn of(scenario: &Scenario, mut holds: impl FnMut(&Scenario) -> bool) -> Option<Self> {
        let own = scenario.rules.iter().filter(|rules| rules.install == Install::Instead);
        let all: Vec<Lacking> = own.flat_map(|rules| lacking(scenario, rules)).collect();
        let mut holds_with = |chains: &[Lacking]| {
            let repaired = Self(chains.to_vec()).repaired(scenario);
            repaired.is_some_and(|repaired| holds(&repaired))
        };
        (all.len() <= MAX && holds_with(&all)).then(|| Self(shortest(all, holds_with)))
    }

    /// The scenario with what the chains lack, as kube-proxy writes it for the scenario's own objects; `None` if they lack nothing, or no
    /// longer have the rules that show it.
    pub(super) fn repaired(&self, scenario: &Scenario) -> Option<Scenario> {
        let mut repaired = scenario.clone();
        for lacking in &self.0 {
            let is_own = |rules: &&mut OtherRules| is_of(rules, &lacking.node, lacking.family);
            let Some(own) = repaired.rules.iter_mut().find(is_own) else { continue };
            let Some(written) = written(scenario, own) else { continue };
            own.rules = Arc::new(lacking.completed(&own.rules, &written)?);
        }
        let total = |scenario: &Scenario| scenario.rules.iter().map(|own| units(&own.rules)).sum::<usize>();
        (total(&repaired) > total(scenario)).then_some(repaired)
    }
}

impl Lacking {
    /// Rules with what the chain lacks of written ones; `None` if it no longer has the rules that show it.
    fn completed(&self, own: &Rules, written: &Rules) -> Option<Rules> {
        match (own, written) {
            (Rules::Iptables(own), Rules::Iptables(written)) => {
                let (mut own, table) = (own.rules.clone(), self.table?);
                let Some(written) = written.rules.table(table).and_then(|table| table.chain(&self.chain)) else {
                    return Some(own.into());
                };
                let chains = &mut own.table_mut(table).chains;
                match chains.iter_mut().find(|chain| chain.name == written.name) {
                    Some(chain) if self.shows(chain.rules.len()) => complete(&mut chain.rules, &written.rules, is_same),
                    None if self.shown == 0 => chains.push(written.clone()),
                    _ => return None,
                }
                Some(own.into())
            }
            (Rules::Nftables(own), Rules::Nftables(written)) => {
                let mut own = own.rules.clone();
                let table = own.tables.iter_mut().find(|table| table.family == self.family)?;
                let chain = table.chains.iter().find(|chain| *chain.name == *self.chain);
                if !self.shows(chain.map_or(0, |chain| chain.rules.len())) {
                    return None;
                }
                if let Some(written) = written.rules.table(self.family) {
                    complete_table(table, written, &self.chain);
                }
                Some(own.into())
            }
            _ => None,
        }
    }

    fn shows(&self, rules: usize) -> bool {
        self.shown > MAX_SHOWN || rules >= self.shown
    }
}

fn is_of(rules: &OtherRules, node: &str, family: Family) -> bool {
    rules.install == Install::Instead
        && rules.family == family
        && matches!(&rules.place, Place::Node(name) if name == node)
}

/// The rules that kube-proxy writes for the node of some rules.
fn written(scenario: &Scenario, rules: &OtherRules) -> Option<Rules> {
    let Place::Node(node) = &rules.place else { return None };
    Rules::generate(&scenario.cluster, scenario.cluster.node(node)?, rules.family).ok()
}

/// The chains, sets and maps that lack something.
fn lacking(scenario: &Scenario, rules: &OtherRules) -> Vec<Lacking> {
    let (Place::Node(node), Some(written)) = (&rules.place, written(scenario, rules)) else { return Vec::new() };
    let lacking = |table, chain: &str, shown| Lacking {
        node: node.clone(),
        family: rules.family,
        table,
        chain: chain.to_owned(),
        shown,
    };
    let all: Vec<Lacking> = match (&written, &*rules.rules) {
        (Rules::Iptables(written), Rules::Iptables(own)) => {
            let shown = |table, chain: &str| own.rules.rules(table, chain).len();
            let of_table = |table: &iptables::Table| {
                let name = table.name;
                let chains =
                    table.chains.iter().map(|chain| lacking(Some(name), &chain.name, shown(name, &chain.name)));
                chains.collect::<Vec<_>>()
            };
            written.rules.tables.iter().flat_map(of_table).collect()
        }
        (Rules::Nftables(written), Rules::Nftables(own)) => {
            let Some(table) = written.rules.table(rules.family) else { return Vec::new() };
            let chains = own.rules.table(rules.family).map(|table| table.chains.as_slice()).unwrap_or_default();
            let shown =
                |name: &str| chains.iter().find(|chain| *chain.name == *name).map_or(0, |chain| chain.rules.len());
            let sets = table.sets.iter().map(|set| &*set.name);
            let names = table.chains.iter().map(|chain| &*chain.name).chain(sets);
            names.map(|name| lacking(None, name, shown(name))).collect()
        }
        _ => Vec::new(),
    };
    let lacks = |one: &Lacking| {
        one.completed(&rules.rules, &written).is_some_and(|completed| units(&completed) > units(&rules.rules))
    };
    all.into_iter().filter(lacks).collect()
}

fn complete_table(own: &mut nftables::Table, written: &nftables::Table, name: &str) {
    if let Some(written) = written.chains.iter().find(|chain| *chain.name == *name) {
        match own.chains.iter_mut().find(|chain| chain.name == written.name) {
            Some(chain) => complete(&mut chain.rules, &written.rules, |one, other| {
                (&one.conditions, &one.statements) == (&other.conditions, &other.statements)
            }),
            None => own.chains.push(written.clone()),
        }
    }
    if let Some(written) = written.sets.iter().find(|set| *set.name == *name) {
        match own.sets.iter_mut().find(|set| set.name == written.name) {
            Some(set) => {
                let is_new = |element: &&nftables::Element| !set.elements.iter().any(|known| known.key == element.key);
                let new: Vec<_> = written.elements.iter().filter(is_new).cloned().collect();
                set.elements.extend(new);
            }
            None => own.sets.push(written.clone()),
        }
    }
}

/// Adds the rules that a chain lacks, each as late as the order of those that are written allows, so that no rule of the chain is
/// overridden.
fn complete<T: Clone>(own: &mut Vec<T>, written: &[T], is_same: impl Fn(&T, &T) -> bool) {
    let mut end = own.len();
    for rule in written.iter().rev() {
        match own[..end].iter().rposition(|known| is_same(known, rule)) {
            Some(at) => end = at,
            None if own.iter().any(|known| is_same(known, rule)) => {}
            None => own.insert(end, rule.clone()),
        }
    }
}

/// Whether rules do the same to the same packets. Comments and counters do nothing.
fn is_same(one: &iptables::Rule, other: &iptables::Rule) -> bool {
    let bare = |rule: &iptables::Rule| {
        let mut rule = iptables::Rule { counters: None, ..rule.clone() };
        rule.matches.retain(|one| !matches!(one, Match::Comment(_)));
        rule
    };
    bare(one) == bare(other)
}
