//! Networks behind interfaces of a node that a lab lacks, as that of Docker's bridge.

use ipnet::IpNet;
use svclab_rules::iptables::{Negatable, Network, Rule, RuleSet, TableName, Target};

use crate::topology::Netns;

/// The shortest prefixes of such networks, by family: wider ones may be those of all machines around.
const SHORTEST: [u8; 2] = [16, 48];

/// The networks whose packets rules masquerade unless they leave by an interface that is not in the namespace: `-s 172.17.0.0/16 ! -o docker0
/// -j MASQUERADE`. Their machines are on the node, so that no packet from outside of it has a source there, unless the network
/// is that of nodes.
pub(super) fn networks<'r>(rules: &'r RuleSet, netns: &'r Netns) -> impl Iterator<Item = IpNet> + 'r {
    let chains = rules.table(TableName::Nat).into_iter().flat_map(|table| &table.chains);
    chains.flat_map(|chain| &chain.rules).filter_map(move |rule| network(rule, netns))
}

fn network(rule: &Rule, netns: &Netns) -> Option<IpNet> {
    let out = rule.out_interface.as_ref().filter(|out| out.negated)?;
    let is_there = netns.interfaces.iter().any(|interface| *interface.name == *out.value);
    let Some(Negatable { negated: false, value: Network::Prefix(range) }) = &rule.source else { return None };
    let shortest = SHORTEST[usize::from(range.addr().is_ipv6())];
    let is_masqueraded = matches!(rule.target, Some(Target::Masquerade { .. }));
    (is_masqueraded && !is_there && range.prefix_len() >= shortest).then_some(*range)
}
