//! The lines of chains of nftables.

use std::collections::HashMap;

use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::ChainKind;
use svclab_rules::ruleset::Rules;

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

/// The lines of the chains that balance the connections of service ports.
pub(super) struct PortLines<'n>(HashMap<PortKey<'n>, usize>);

/// What a service port's chain is found by.
#[derive(Debug, PartialEq, Eq, Hash)]
enum PortKey<'n> {
    /// The hash in the name of a chain of iptables.
    Hash(&'n str),
    /// `namespace/name/protocol/` in the name of a chain of nftables.
    Name(&'n str),
}

impl<'n> PortLines<'n> {
    /// Those of a node.
    pub(super) fn of(node: &'n NodeRules) -> Self {
        let lines = match &node.rules {
            Rules::Iptables(parsed) => {
                let chains = parsed.rules.tables.iter().enumerate().flat_map(|(table_at, table)| {
                    table.chains.iter().enumerate().map(move |(at, chain)| (table_at, at, &*chain.name))
                });
                let placed = |(table, at, name): (usize, usize, &'n str)| {
                    let hash = name.strip_prefix(ChainKind::Service.prefix())?;
                    Some((PortKey::Hash(hash), parsed.lines.line(table, at, 0)?))
                };
                chains.filter_map(placed).collect()
            }
            Rules::Nftables(parsed) => {
                let chains = parsed.rules.tables.iter().enumerate().flat_map(|(table_at, table)| {
                    table.chains.iter().enumerate().map(move |(at, chain)| (table_at, at, &*chain.name))
                });
                let placed = |(table, at, name): (usize, usize, &'n str)| {
                    let (_, named) = name.strip_prefix("service-")?.split_once('-')?;
                    let (end, _) = named.match_indices('/').nth(2)?;
                    Some((PortKey::Name(&named[..=end]), parsed.lines.chain(table, at)?))
                };
                chains.filter_map(placed).collect()
            }
            _ => HashMap::new(),
        };
        Self(lines)
    }

    /// That of a service port.
    pub(super) fn of_port(&self, port: &InferredPort) -> Option<usize> {
        let hash = port.hash.map(|hash| hash.to_string());
        let by_hash = hash.as_deref().and_then(|hash| self.0.get(&PortKey::Hash(hash)));
        let name = format!("{}/{}/", port.service, port.protocol.as_str());
        by_hash.or_else(|| self.0.get(&PortKey::Name(&name))).copied()
    }
}
