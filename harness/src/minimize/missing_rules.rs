//! The missing rules that cause a failure: kube-proxy writes them, a node lacks them, and with them the class keeps its promise.
//!
//! A reduction that only requires the same failure would also remove the rules around the gap, since the flow fails without them, too.

use std::collections::HashMap;
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::TableName;
use svclab_rules::nftables::Set;
use svclab_rules::ruleset::Rules;

use super::complete::{SameRule, complete_chain, complete_elements, lacks_elements, lacks_rules};
use super::delta::shortest;
use super::rules::units;
use crate::scenario::{Install, OtherRules, Place, Scenario};

/// The chains, sets and maps of nodes that lack rules or elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingRules(Vec<IncompleteChain>);

/// A chain, set or map that lacks rules or elements.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IncompleteChain {
    node: String,
    family: Family,
    /// The table of iptables; nftables has one of a family.
    table: Option<TableName>,
    name: String,
    /// The number of rules that it has, which a reduction keeps, up to [`MAX_KEPT`].
    kept: usize,
}

/// The most chains that are tried.
const MAX: usize = 64;

/// The most rules that are kept around a gap. A longer chain only stays itself.
const MAX_KEPT: usize = 8;

impl MissingRules {
    /// The smallest set of chains such that the scenario `holds` if they are completed.
    pub(super) fn find(scenario: &Scenario, mut holds: impl FnMut(&Scenario) -> bool) -> Option<Self> {
        let own = scenario.rules.iter().filter(|rules| rules.install == Install::Instead);
        let all: Vec<IncompleteChain> = own.flat_map(|rules| incomplete_chains(scenario, rules)).collect();
        let mut holds_with = |chains: &[IncompleteChain]| {
            let repaired = Self(chains.to_vec()).repaired(scenario);
            repaired.is_some_and(|repaired| holds(&repaired))
        };
        (all.len() <= MAX && holds_with(&all)).then(|| Self(shortest(all, holds_with)))
    }

    /// The scenario with complete chains, as kube-proxy writes them for the scenario's own objects; `None` if they lack nothing, or no longer
    /// have the rules that are kept.
    pub(super) fn repaired(&self, scenario: &Scenario) -> Option<Scenario> {
        let mut repaired = scenario.clone();
        for chain in &self.0 {
            let is_own = |rules: &&mut OtherRules| is_of(rules, &chain.node, chain.family);
            let Some(own) = repaired.rules.iter_mut().find(is_own) else { continue };
            let Some(generated) = generated(scenario, own) else { continue };
            own.rules = Arc::new(chain.completed(&own.rules, &generated)?);
        }
        let total = |scenario: &Scenario| scenario.rules.iter().map(|own| units(&own.rules)).sum::<usize>();
        (total(&repaired) > total(scenario)).then_some(repaired)
    }
}

impl IncompleteChain {
    /// Rules in which the chain has all that generated ones have; `None` if it no longer has the rules that are kept.
    fn completed(&self, own: &Rules, generated: &Rules) -> Option<Rules> {
        match (own, generated) {
            (Rules::Iptables(own), Rules::Iptables(generated)) => {
                let (mut own, name) = (own.rules.clone(), self.table?);
                let generated = generated.rules.table(name)?.chain(&self.name);
                let chains = &mut own.table_mut(name).chains;
                let chain = chains.iter_mut().find(|chain| *chain.name == *self.name).map(|chain| &mut chain.rules);
                if self.complete(chain, generated.map_or(&[], |chain| &chain.rules))? {
                    chains.extend(generated.cloned());
                }
                Some(own.into())
            }
            (Rules::Nftables(own), Rules::Nftables(generated)) => {
                let mut own = own.rules.clone();
                let table = own.tables.iter_mut().find(|table| table.family == self.family)?;
                let generated = generated.rules.table(self.family)?;
                self.complete_set(&mut table.sets, generated.set(&self.name));
                let (chains, generated) = (&mut table.chains, generated.chain(&self.name));
                let chain = chains.iter_mut().find(|chain| *chain.name == *self.name).map(|chain| &mut chain.rules);
                if self.complete(chain, generated.map_or(&[], |chain| &chain.rules))? {
                    chains.extend(generated.cloned());
                }
                Some(own.into())
            }
            _ => None,
        }
    }

    /// Adds the rules that the chain lacks. Returns whether the chain itself is missing; `None` if a reduced chain no longer has the rules that
    /// are kept.
    fn complete<T: SameRule>(&self, own: Option<&mut Vec<T>>, generated: &[T]) -> Option<bool> {
        let Some(own) = own else { return (self.kept == 0).then_some(true) };
        let has_kept = self.kept > MAX_KEPT || own.len() >= self.kept;
        complete_chain(own, generated);
        has_kept.then_some(false)
    }

    /// Adds the elements that the set or map lacks, or the whole set.
    fn complete_set(&self, own: &mut Vec<Set>, generated: Option<&Set>) {
        let set = own.iter_mut().find(|set| *set.name == *self.name);
        match (set, generated) {
            (Some(set), Some(generated)) => complete_elements(&mut set.elements, &generated.elements),
            (None, Some(generated)) => own.push(generated.clone()),
            (_, None) => {}
        }
    }
}

fn is_of(rules: &OtherRules, node: &str, family: Family) -> bool {
    rules.install == Install::Instead
        && rules.family == family
        && matches!(&rules.place, Place::Node(name) if name == node)
}

/// The rules that kube-proxy writes for the node of some rules.
fn generated(scenario: &Scenario, rules: &OtherRules) -> Option<Rules> {
    let Place::Node(node) = &rules.place else { return None };
    Rules::generate(&scenario.cluster, scenario.cluster.node(node)?, rules.family).ok()
}

/// The chains, sets and maps that lack something, at most one more than [`MAX`].
fn incomplete_chains(scenario: &Scenario, rules: &OtherRules) -> Vec<IncompleteChain> {
    let (Place::Node(node), Some(generated)) = (&rules.place, generated(scenario, rules)) else { return Vec::new() };
    let incomplete = |(table, name, kept): (Option<TableName>, &str, usize)| IncompleteChain {
        node: node.clone(),
        family: rules.family,
        table,
        name: name.to_owned(),
        kept,
    };
    match (&generated, &*rules.rules) {
        (Rules::Iptables(generated), Rules::Iptables(own)) => {
            let own = own.rules.tables.iter().flat_map(|table| table.chains.iter().map(|chain| (table.name, chain)));
            let own: HashMap<_, _> = own.map(|(table, chain)| ((table, &*chain.name), &*chain.rules)).collect();
            let all =
                generated.rules.tables.iter().flat_map(|table| table.chains.iter().map(|chain| (table.name, chain)));
            let lacking = all.filter_map(|(table, chain)| {
                let own = own.get(&(table, &*chain.name)).copied().unwrap_or_default();
                lacks_rules(own, &chain.rules).then_some((Some(table), &*chain.name, own.len()))
            });
            lacking.take(MAX + 1).map(incomplete).collect()
        }
        (Rules::Nftables(generated), Rules::Nftables(own)) => {
            let Some(generated) = generated.rules.table(rules.family) else { return Vec::new() };
            let own = own.rules.table(rules.family);
            let chains = own.map(|table| table.chains.as_slice()).unwrap_or_default();
            let chains: HashMap<_, _> = chains.iter().map(|chain| (&*chain.name, &*chain.rules)).collect();
            let lacking_rules = generated.chains.iter().filter_map(|chain| {
                let own = chains.get(&*chain.name).copied().unwrap_or_default();
                lacks_rules(own, &chain.rules).then_some((None, &*chain.name, own.len()))
            });
            let sets = own.map(|table| table.sets.as_slice()).unwrap_or_default();
            let sets: HashMap<_, _> = sets.iter().map(|set| (&*set.name, &*set.elements)).collect();
            let lacking_elements = generated.sets.iter().filter_map(|set| {
                let own = sets.get(&*set.name).copied().unwrap_or_default();
                lacks_elements(own, &set.elements).then_some((None, &*set.name, 0))
            });
            lacking_rules.chain(lacking_elements).take(MAX + 1).map(incomplete).collect()
        }
        _ => Vec::new(),
    }
}
