//! What a node's tables hold beside kube-proxy's rules.

use std::collections::HashSet;

use super::read::is_of_others;
use crate::iptables::{ChainName, Policy, RuleSet, TableName};

/// How much of a rule set is not kube-proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// How many rules.
    pub rules: usize,
    /// In how many chains they stand, built-in ones among them.
    pub chains: usize,
}

/// Leaves kube-proxy's rules in both rule sets, and counts what was taken out of those that were found.
///
/// kube-proxy's are the chains whose names begin with `KUBE-`, but for those that the kubelet or kube-router is known to make
/// and that are not expected; and in the kernel's own chains the jumps to them. A policy is nothing of kube-proxy's.
pub fn leave_out_others(expected: &mut RuleSet, found: &mut RuleSet) -> Others {
    let chains = expected.tables.iter().flat_map(|table| table.chains.iter().map(|chain| (table.name, &chain.name)));
    let known: HashSet<(TableName, ChainName)> = chains.map(|(table, chain)| (table, chain.clone())).collect();
    leave_out(expected, &known);
    leave_out(found, &known)
}

fn leave_out(rules: &mut RuleSet, known: &HashSet<(TableName, ChainName)>) -> Others {
    let mut others = Others::default();
    for table in &mut rules.tables {
        let name = table.name;
        let own = |chain: &ChainName| {
            chain.starts_with("KUBE-") && (!is_of_others(chain) || known.contains(&(name, chain.clone())))
        };
        for chain in table.chains.iter_mut().filter(|chain| !own(&chain.name)) {
            let before = chain.rules.len();
            if name.builtin_chains().contains(&&*chain.name) {
                chain.policy = chain.policy.map(|_| Policy::Accept);
                chain.rules.retain(|rule| rule.next_chain().is_some_and(own));
            } else {
                chain.rules.clear();
            }
            let left_out = before - chain.rules.len();
            others.rules += left_out;
            others.chains += usize::from(left_out > 0);
        }
        table.chains.retain(|chain| own(&chain.name) || name.builtin_chains().contains(&&*chain.name));
    }
    others
}
