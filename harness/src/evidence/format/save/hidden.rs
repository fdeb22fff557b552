//! Lines that something left out of tables whose headings it shows: what every node's rules have is missing.

use svclab_rules::iptables::{Chain, ChainKind, RuleSet, TableName};

/// Whether chains are declared, but a filter hid rules that kube-proxy never lets a node be without: those of all chains of endpoints, and those
/// that mark and masquerade.
pub(super) fn hides_rules(rules: &RuleSet) -> bool {
    let Some(nat) = rules.table(TableName::Nat) else { return false };
    let is_empty = |chain: &Chain| chain.rules.is_empty();
    let mut endpoints = nat.chains.iter().filter(|chain| ChainKind::Endpoint.is_of(&chain.name)).peekable();
    let has_endpoints = endpoints.peek().is_some();
    // A text that ends before the chains of endpoints ends before those of Services, too.
    let has_services = nat.chains.iter().any(|chain| ChainKind::Service.is_of(&chain.name) && !is_empty(chain));
    has_endpoints
        && has_services
        && endpoints.all(is_empty)
        && ["KUBE-MARK-MASQ", "KUBE-POSTROUTING"].iter().all(|name| nat.chain(name).is_none_or(is_empty))
}
