//! Rules of other programs in a node's tables.

use std::collections::HashSet;

use crate::iptables::{Chain, Rule, RuleSet, TableName};

/// The part of a rule set that is not kube-proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// The number of rules.
    pub rules: usize,
    /// The number of iptables chains with such rules, including built-in ones.
    pub chains: usize,
    /// The number of nftables tables with such rules.
    pub tables: usize,
}

/// Decides which iptables rules are kube-proxy's.
///
/// These are the chains whose names start with `KUBE-`, except those that the kubelet or kube-router creates and that are not expected, and
/// the jumps to them from built-in chains. Policies are not kube-proxy's.
#[derive(Debug)]
pub(super) struct Own<'a> {
    expected: HashSet<(TableName, &'a str)>,
}

impl<'a> Own<'a> {
    /// Decides by the expected rules.
    pub(super) fn of(expected: &'a RuleSet) -> Self {
        let chains = |table: &'a crate::iptables::Table| table.chains.iter().map(|chain| (table.name, &*chain.name));
        Self { expected: expected.tables.iter().flat_map(chains).collect() }
    }

    /// Returns whether a chain is kube-proxy's.
    pub(super) fn has(&self, table: TableName, chain: &str) -> bool {
        is_own_chain(chain) || chain.starts_with("KUBE-") && self.expected.contains(&(table, chain))
    }

    /// Returns whether a rule of a chain is kube-proxy's.
    pub(super) fn reads(&self, table: TableName, chain: &Chain, rule: &Rule) -> bool {
        let builtin = || table.builtin_chains().contains(&&*chain.name);
        let leads_there = || rule.next_chain().is_some_and(|next| self.has(table, next));
        self.has(table, &chain.name) || builtin() && leads_there()
    }

    /// Counts the rules that are not kube-proxy's.
    pub(super) fn others(&self, rules: &RuleSet) -> Others {
        let mut others = Others::default();
        for table in &rules.tables {
            for chain in &table.chains {
                let left_out = chain.rules.iter().filter(|rule| !self.reads(table.name, chain, rule)).count();
                others.rules += left_out;
                others.chains += usize::from(left_out > 0);
            }
        }
        others
    }
}

/// Returns whether kube-proxy rewrites a chain of this name whenever it syncs it.
pub fn is_own_chain(chain: &str) -> bool {
    chain.starts_with("KUBE-") && !is_of_others(chain)
}

/// Returns whether a chain starts with `KUBE-` but is not kube-proxy's: one of the kubelet (`pkg/kubelet/kubelet_network_linux.go`; up to
/// 1.26 both wrote some of them), or of a network policy in kube-router.
fn is_of_others(chain: &str) -> bool {
    const NAMES: [&str; 4] = ["KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-FIREWALL", "KUBE-MARK-DROP"];
    const PREFIXES: [&str; 3] = ["KUBE-ROUTER-", "KUBE-NWPLCY-", "KUBE-POD-FW-"];
    NAMES.contains(&chain) || PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}
