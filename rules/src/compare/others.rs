//! What a node's tables hold alongside kube-proxy's rules.

use std::collections::HashSet;

use crate::iptables::{Chain, Rule, RuleSet, TableName};

/// How much of a rule set is not kube-proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Others {
    /// How many rules.
    pub rules: usize,
    /// The number of iptables chains that have them, including built-in ones.
    pub chains: usize,
    /// The number of nftables tables that have them.
    pub tables: usize,
}

/// Which rules of iptables are kube-proxy's.
///
/// These are the chains whose names begin with `KUBE-`, but for those that the kubelet or kube-router is known to make and
/// that are not expected; and in the kernel's own chains the jumps to them. A policy is nothing of kube-proxy's.
#[derive(Debug)]
pub(super) struct Own<'a> {
    expected: HashSet<(TableName, &'a str)>,
}

impl<'a> Own<'a> {
    /// kube-proxy's where these rules are expected.
    pub(super) fn of(expected: &'a RuleSet) -> Self {
        let chains = |table: &'a crate::iptables::Table| table.chains.iter().map(|chain| (table.name, &*chain.name));
        Self { expected: expected.tables.iter().flat_map(chains).collect() }
    }

    /// Whether a chain is kube-proxy's.
    pub(super) fn has(&self, table: TableName, chain: &str) -> bool {
        is_own_chain(chain) || chain.starts_with("KUBE-") && self.expected.contains(&(table, chain))
    }

    /// Whether a rule of a chain is.
    pub(super) fn reads(&self, table: TableName, chain: &Chain, rule: &Rule) -> bool {
        let builtin = || table.builtin_chains().contains(&&*chain.name);
        let leads_there = || rule.next_chain().is_some_and(|next| self.has(table, next));
        self.has(table, &chain.name) || builtin() && leads_there()
    }

    /// How much is not.
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

/// Whether kube-proxy writes a chain of this name anew at each sync that is about it.
pub fn is_own_chain(chain: &str) -> bool {
    chain.starts_with("KUBE-") && !is_of_others(chain)
}

/// Whether a chain is one that begins with `KUBE-` and is not kube-proxy's: the kubelet's own
/// (`pkg/kubelet/kubelet_network_linux.go`; up to 1.26 some were both's), or a network policy's of kube-router.
fn is_of_others(chain: &str) -> bool {
    const NAMES: [&str; 4] = ["KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT", "KUBE-FIREWALL", "KUBE-MARK-DROP"];
    const PREFIXES: [&str; 3] = ["KUBE-ROUTER-", "KUBE-NWPLCY-", "KUBE-POD-FW-"];
    NAMES.contains(&chain) || PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}
