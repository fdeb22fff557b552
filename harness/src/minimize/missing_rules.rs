//! Chains, sets and maps of a node that lack rules or elements which kube-proxy writes.

use std::collections::HashMap;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::TableName;
use svclab_rules::nftables::Set;
use svclab_rules::ruleset::Rules;

use super::complete::{SameRule, complete_chain, complete_elements, lacks_elements, lacks_rules};
use crate::scenario::{Install, OtherRules, Place};

/// A chain, set or map that lacks rules or elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IncompleteChain {
    node: String,
    family: Family,
    /// The table of iptables; nftables has one of a family.
    table: Option<TableName>,
    name: String,
    /// The number of rules that it has, which a reduction keeps, up to [`MAX_KEPT`].
    kept: usize,
}

/// The most rules that are kept around a gap. A longer chain only stays itself.
const MAX_KEPT: usize = 8;

impl IncompleteChain {
    /// The chains, sets and maps that lack something, at most this many; `generated` are the rules that kube-proxy writes for the node.
    pub(super) fn all(rules: &OtherRules, generated: &Rules, most: usize) -> Vec<Self> {
        let Place::Node(node) = &rules.place else { return Vec::new() };
        let incomplete = |(table, name, kept): (Option<TableName>, &str, usize)| Self {
            node: node.clone(),
            family: rules.family,
            table,
            name: name.to_owned(),
            kept,
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
                    lacks_rules(own, &chain.rules).then_some((Some(table), &*chain.name, own.len()))
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
                    lacks_rules(own, &chain.rules).then_some((None, &*chain.name, own.len()))
                });
                let sets = own.map(|table| table.sets.as_slice()).unwrap_or_default();
                let sets: HashMap<_, _> = sets.iter().map(|set| (&*set.name, &*set.elements)).collect();
                let lacking_elements = generated.sets.iter().filter_map(|set| {
                    let own = sets.get(&*set.name).copied().unwrap_or_default();
                    lacks_elements(own, &set.elements).then_some((None, &*set.name, 0))
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

    /// Rules in which the chain has all that generated ones have; `None` if it no longer has the rules that are kept.
    pub(super) fn completed(&self, own: &Rules, generated: &Rules) -> Option<Rules> {
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
