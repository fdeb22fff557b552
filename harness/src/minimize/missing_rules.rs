//! Chains, sets and maps of a node that lack rules or elements which kube-proxy writes.

use std::collections::HashMap;
use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{Chain, TableName};
use svclab_rules::nftables::{self, Set, Table};
use svclab_rules::ruleset::Rules;

use super::complete::{complete_chain, complete_elements, elements_of, lacks_elements, lacks_rules, rules_of};
use crate::scenario::{Install, OtherRules, Place};

/// A chain, set or map that lacks rules or elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IncompleteChain {
    node: String,
    family: Family,
    /// The table of iptables; nftables has one of a family.
    table: Option<TableName>,
    name: String,
    /// The node's rules before any of them are removed.
    before: Arc<Rules>,
}

impl IncompleteChain {
    /// The chains, sets and maps that lack something, at most this many; `generated` are the rules that kube-proxy writes for the node.
    pub(super) fn all(rules: &OtherRules, generated: &Rules, most: usize) -> Vec<Self> {
        let Place::Node(node) = &rules.place else { return Vec::new() };
        let incomplete = |(table, name): (Option<TableName>, &str)| Self {
            node: node.clone(),
            family: rules.family,
            table,
            name: name.to_owned(),
            before: rules.rules.clone(),
        };
        match (generated, &*rules.rules) {
            (Rules::Iptables(generated), Rules::Iptables(own)) => {
                let own =
                    own.rules.tables.iter().flat_map(|table| table.chains.iter().map(|chain| (table.name, chain)));
                let own: HashMap<_, _> = own.map(|(table, chain)| ((table, &*chain.name), &*chain.rules)).collect();
                let all = generated
                    .rules
                    .tables
                    .iter()
                    .flat_map(|table| table.chains.iter().map(|chain| (table.name, chain)));
                let lacking = all.filter_map(|(table, chain)| {
                    let own = own.get(&(table, &*chain.name)).copied().unwrap_or_default();
                    lacks_rules(own, &chain.rules).then_some((Some(table), &*chain.name))
                });
                lacking.take(most).map(incomplete).collect()
            }
            (Rules::Nftables(generated), Rules::Nftables(own)) => {
                let Some(generated) = generated.rules.table(rules.family) else { return Vec::new() };
                let own = own.rules.table(rules.family);
                let chains = own.map(|table| table.chains.as_slice()).unwrap_or_default();
                let chains: HashMap<_, _> = chains.iter().map(|chain| (&*chain.name, &*chain.rules)).collect();
                let lacking_rules = generated.chains.iter().filter_map(|chain| {
                    let own = chains.get(&*chain.name).copied().unwrap_or_default();
                    lacks_rules(own, &chain.rules).then_some((None, &*chain.name))
                });
                let sets = own.map(|table| table.sets.as_slice()).unwrap_or_default();
                let sets: HashMap<_, _> = sets.iter().map(|set| (&*set.name, &*set.elements)).collect();
                let lacking_elements = generated.sets.iter().filter_map(|set| {
                    let own = sets.get(&*set.name).copied().unwrap_or_default();
                    lacks_elements(own, &set.elements).then_some((None, &*set.name))
                });
                lacking_rules.chain(lacking_elements).take(most).map(incomplete).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether these are the rules that contain it.
    pub(super) fn is_of(&self, rules: &OtherRules) -> bool {
        rules.install == Install::Instead
            && rules.family == self.family
            && matches!(&rules.place, Place::Node(name) if *name == self.node)
    }

    /// Rules in which the chain has all that it lacked; `None` if they are of another mode.
    pub(super) fn completed(&self, own: &Rules, generated: &Rules) -> Option<Rules> {
        match (own, &*self.before, generated) {
            (Rules::Iptables(own), Rules::Iptables(before), Rules::Iptables(generated)) => {
                let (mut own, name) = (own.rules.clone(), self.table?);
                let generated = generated.rules.table(name)?.chain(&self.name)?;
                let chains = &mut own.table_mut(name).chains;
                let at = chains.iter().position(|chain| *chain.name == *self.name).unwrap_or_else(|| {
                    chains.push(Chain { rules: Vec::new(), ..generated.clone() });
                    chains.len() - 1
                });
                complete_chain(&mut chains[at].rules, before.rules.rules(name, &self.name), &generated.rules);
                Some(own.into())
            }
            (Rules::Nftables(own), Rules::Nftables(before), Rules::Nftables(generated)) => {
                let mut own = own.rules.clone();
                let table = own.tables.iter_mut().find(|table| table.family == self.family)?;
                self.complete_table(table, before.rules.table(self.family), generated.rules.table(self.family)?);
                Some(own.into())
            }
            _ => None,
        }
    }

    /// Completes the chain and the set of its name, of which a table has one.
    fn complete_table(&self, own: &mut Table, before: Option<&Table>, generated: &Table) {
        if let Some(generated) = generated.set(&self.name) {
            let at = own.sets.iter().position(|set| *set.name == *self.name).unwrap_or_else(|| {
                own.sets.push(Set { elements: Vec::new(), ..generated.clone() });
                own.sets.len() - 1
            });
            complete_elements(&mut own.sets[at].elements, elements_of(before, &self.name), &generated.elements);
        }
        if let Some(generated) = generated.chain(&self.name) {
            let at = own.chains.iter().position(|chain| *chain.name == *self.name).unwrap_or_else(|| {
                own.chains.push(nftables::Chain { rules: Vec::new(), ..generated.clone() });
                own.chains.len() - 1
            });
            complete_chain(&mut own.chains[at].rules, rules_of(before, &self.name), &generated.rules);
        }
    }
}
