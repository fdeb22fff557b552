//! The lines of chains of nftables.

use std::collections::HashMap;

use svclab_rules::infer::InferredPort;

use crate::evidence::NodeRules;

/// The lines of the rules of each chain, behind which the line of its heading counts where it has none.
pub(super) fn lines_of_nft(node: &NodeRules) -> HashMap<&str, Vec<usize>> {
    let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
    let Some(parsed) = node.rules.nftables() else { return lines };
    for (table_at, table) in parsed.rules.tables.iter().enumerate() {
        for (chain_at, chain) in table.chains.iter().enumerate() {
            let of_rules = (0..chain.rules.len()).filter_map(|at| parsed.lines.rule(table_at, chain_at, at));
            let own: Vec<usize> = of_rules.collect();
            let heading = parsed.lines.chain(table_at, chain_at);
            let own = if own.is_empty() { heading.into_iter().collect() } else { own };
            lines.entry(&chain.name).or_insert(own);
        }
    }
    lines
}

/// The line of the chain that balances the connections of a service port.
pub(super) fn line_of_port(node: &NodeRules, port: &InferredPort) -> Option<usize> {
    if let Some(parsed) = node.rules.nftables() {
        let service = format!("-{}/{}/", port.service, port.protocol.as_str());
        let table = parsed.rules.tables.iter().enumerate().find_map(|(at, table)| {
            let is_own = |chain: &str| chain.starts_with("service-") && chain.contains(&service);
            Some((at, table.chains.iter().position(|chain| is_own(&chain.name))?))
        });
        let (table, chain) = table?;
        return parsed.lines.chain(table, chain);
    }
    let svclab_rules::ruleset::Rules::Iptables(parsed) = &node.rules else { return None };
    let name = format!("KUBE-SVC-{}", port.hash?);
    let places = parsed
        .rules
        .tables
        .iter()
        .enumerate()
        .find_map(|(at, table)| Some((at, table.chains.iter().position(|chain| *chain.name == *name)?)));
    let (table, chain) = places?;
    parsed.lines.line(table, chain, 0)
}
