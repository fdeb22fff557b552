//! The missing rules that cause a failure: kube-proxy writes them, a node lacks them, and with them the class keeps its promise.
//!
//! A reduction that only requires the same failure would also remove the rules around the gap, since the flow fails without them, too.

use std::collections::HashMap;
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, TableName};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::complete::{complete_chain, complete_elements, lacks_elements, lacks_rules};
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
                self.complete_iptables(own.table_mut(name), generated.rules.table(name)?)?;
                Some(own.into())
            }
            (Rules::Nftables(own), Rules::Nftables(generated)) => {
                let mut own = own.rules.clone();
                let table = own.tables.iter_mut().find(|table| table.family == self.family)?;
                self.complete_nftables(table, generated.rules.table(self.family)?)?;
                Some(own.into())
            }
            _ => None,
        }
    }

    fn complete_iptables(&self, own: &mut iptables::Table, generated: &iptables::Table) -> Option<()> {
        let chain = own.chains.iter_mut().find(|chain| *chain.name == *self.name);
        self.has_kept(chain.as_ref().map(|chain| &*chain.rules))?;
        match (chain, generated.chain(&self.name)) {
            (Some(chain), Some(generated)) => complete_chain(&mut chain.rules, &generated.rules),
            (None, Some(generated)) => own.chains.push(generated.clone()),
            (_, None) => {}
        }
        Some(())
    }

    fn complete_nftables(&self, own: &mut nftables::Table, generated: &nftables::Table) -> Option<()> {
        let chain = own.chains.iter_mut().find(|chain| *chain.name == *self.name);
        self.has_kept(chain.as_ref().map(|chain| &*chain.rules))?;
        match (chain, generated.chain(&self.name)) {
            (Some(chain), Some(generated)) => complete_chain(&mut chain.rules, &generated.rules),
            (None, Some(generated)) => own.chains.push(generated.clone()),
            (_, None) => {}
        }
        let set = own.sets.iter_mut().find(|set| *set.name == *self.name);
        match (set, generated.sets.iter().find(|set| *set.name == *self.name)) {
            (Some(set), Some(generated)) => complete_elements(&mut set.elements, &generated.elements),
            (None, Some(generated)) => own.sets.push(generated.clone()),
            (_, None) => {}
        }
        Some(())
    }

    /// `None` if a reduced chain no longer has the rules that are kept.
    fn has_kept<T>(&self, rules: Option<&[T]>) -> Option<()> {
        let has_kept = match rules {
            Some(rules) => self.kept > MAX_KEPT || rules.len() >= self.kept,
            None => self.kept == 0,
        };
        has_kept.then_some(())
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
