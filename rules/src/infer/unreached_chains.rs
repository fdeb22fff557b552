//! Chains of load balancers that have rules, but that no rule leads to.

use std::collections::HashSet;

use crate::chains::iptables::is_large;
use crate::iptables::{ChainHash, ChainKind, Rule, Table};

/// Finds the chains of load balancers (`KUBE-FW-`) to which the rules are lost. Kube-proxy writes such a chain with the rules that lead to it, and
/// removes both together, unless the cluster is large. This is known only where `KUBE-SERVICES` is shown whole. A chain of all external addresses
/// (`KUBE-EXT-`) proves nothing: with external IPs disallowed, 1.36 leaves it without a rule that leads there.
pub(super) fn unreached(nat: &Table, is_whole: &dyn Fn(&str) -> bool) -> Vec<(ChainHash, String)> {
    let is_shown = nat.chain("KUBE-SERVICES").is_some() && is_whole("KUBE-SERVICES");
    if !is_shown || is_large(&nat.chains) {
        return Vec::new();
    }
    let jumps = nat.chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).collect();
    let left = nat.chains.iter().filter(|chain| !chain.rules.is_empty() && !led.contains(&*chain.name));
    left.filter_map(|chain| Some((ChainKind::Firewall.hash(&chain.name)?, chain.name.to_string()))).collect()
}
