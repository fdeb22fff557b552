//! What a node has beyond the generated rules: rules of its own, and policies that drop packets.

use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, Policy, TableName};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use super::complete::SameRule;
use crate::scenario::{Install, OtherRules, Place, Scenario};

/// A rule that kube-proxy does not write, or a policy other than ACCEPT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    place: Place,
    family: Family,
    chain: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Policy(TableName),
    Iptables(TableName, Box<iptables::Rule>),
    Nftables(Box<nftables::Rule>),
}

impl Obstacle {
    /// The obstacles of some rules; `generated` are those that kube-proxy writes for their node.
    pub(super) fn all(own: &OtherRules, generated: Option<&Rules>) -> Vec<Self> {
        let generated = generated.filter(|_| own.install == Install::Instead);
        let obstacle = |chain: &str, kind: Kind| Self {
            place: own.place.clone(),
            family: own.family,
            chain: chain.to_owned(),
            kind,
        };
        let mut all = Vec::new();
        match (&*own.rules, generated) {
            (Rules::Iptables(parsed), generated) => {
                let tables = parsed.rules.tables.iter();
                for (table, chain) in tables.flat_map(|table| table.chains.iter().map(|chain| (table.name, chain))) {
                    if chain.policy.is_some_and(|policy| policy != Policy::Accept) {
                        all.push(obstacle(&chain.name, Kind::Policy(table)));
                    }
                    let usual = match generated {
                        Some(Rules::Iptables(generated)) => generated.rules.rules(table, &chain.name),
                        _ => &[],
                    };
                    let extra = chain.rules.iter().filter(|rule| !usual.iter().any(|usual| usual.is_same(rule)));
                    all.extend(extra.map(|rule| obstacle(&chain.name, Kind::Iptables(table, Box::new(rule.clone())))));
                }
            }
            (Rules::Nftables(parsed), Some(Rules::Nftables(generated))) => {
                let usual = generated.rules.table(own.family);
                for chain in parsed.rules.table(own.family).into_iter().flat_map(|table| &table.chains) {
                    let usual = usual.and_then(|table| table.chain(&chain.name)).map_or(&[][..], |chain| &chain.rules);
                    let extra = chain.rules.iter().filter(|rule| !usual.iter().any(|usual| usual.is_same(rule)));
                    all.extend(extra.map(|rule| obstacle(&chain.name, Kind::Nftables(Box::new(rule.clone())))));
                }
            }
            _ => {}
        }
        all
    }

    /// Removes it from a scenario. Returns whether the scenario had it.
    pub(super) fn remove(&self, scenario: &mut Scenario) -> bool {
        let of_place = scenario.rules.iter_mut().filter(|own| own.place == self.place && own.family == self.family);
        // Each of a node's rule sets is tried: most have only one.
        of_place.fold(false, |is_removed, own| is_removed | self.remove_from(own))
    }

    fn remove_from(&self, own: &mut OtherRules) -> bool {
        match (&*own.rules, &self.kind) {
            (Rules::Iptables(parsed), Kind::Policy(table)) => {
                let mut rules = parsed.rules.clone();
                let Some(chain) = chain_of(&mut rules, *table, &self.chain) else { return false };
                if chain.policy.replace(Policy::Accept).is_none_or(|policy| policy == Policy::Accept) {
                    return false;
                }
                own.rules = Arc::new(rules.into());
            }
            (Rules::Iptables(parsed), Kind::Iptables(table, rule)) => {
                let mut rules = parsed.rules.clone();
                let Some(chain) = chain_of(&mut rules, *table, &self.chain) else { return false };
                let Some(at) = chain.rules.iter().position(|own| own.is_same(rule)) else { return false };
                chain.rules.remove(at);
                own.rules = Arc::new(rules.into());
            }
            (Rules::Nftables(parsed), Kind::Nftables(rule)) => {
                let mut rules = parsed.rules.clone();
                let chains = rules.tables.iter_mut().filter(|table| table.family == self.family);
                let chain = chains.flat_map(|table| &mut table.chains).find(|chain| *chain.name == *self.chain);
                let Some(chain) = chain else { return false };
                let Some(at) = chain.rules.iter().position(|own| own.is_same(rule)) else { return false };
                chain.rules.remove(at);
                own.rules = Arc::new(rules.into());
            }
            _ => return false,
        }
        true
    }
}

fn chain_of<'r>(rules: &'r mut iptables::RuleSet, table: TableName, name: &str) -> Option<&'r mut iptables::Chain> {
    let table = rules.tables.iter_mut().find(|own| own.name == table)?;
    table.chains.iter_mut().find(|chain| *chain.name == *name)
}
