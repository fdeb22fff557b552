//! The order of the base chains of a hook.

use std::cmp::Reverse;

use super::hook::Hook;

/// The priority of conntrack's lookup (`NF_IP_PRI_CONNTRACK`).
const CONNECTIONS: i32 = -200;
/// The priorities of DNAT and of SNAT (`NF_IP_PRI_NAT_DST`, `NF_IP_PRI_NAT_SRC`).
pub(crate) const DESTINATIONS: i32 = -100;
pub(crate) const SOURCES: i32 = 100;

/// A stop on the path through a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Conntrack looks up the packet's connection.
    Lookup,
    /// A chain that every packet traverses.
    Chain {
        /// The position of the chain.
        chain: u32,
        /// Whether a locally generated packet is routed again if the chain changes its mark.
        reroutes: bool,
    },
    /// A nat chain, which the first packet of a connection traverses unless an earlier one has bound a translation.
    Nat(u32),
    /// The packet is rewritten as its connection's translation requires.
    Translation,
}

/// A base chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hooked {
    pub(crate) hook: Hook,
    /// The priority; lower numbers come first.
    pub(crate) priority: i32,
    pub(crate) chain: u32,
    pub(crate) kind: Kind,
}

/// The type of a base chain, by the packets that traverse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every packet.
    Filter {
        /// Whether a locally generated packet is routed again if the chain changes its mark.
        reroutes: bool,
    },
    /// The first packet of a connection.
    Nat,
}

/// The sort key of a chain: priority; with equal priorities, the chain created last comes first.
type Order = (i32, Reverse<usize>);

/// Returns the stops of a hook, given its base chains in creation order. Of chains with equal priority, the kernel evaluates the one
/// created last first (`nf_hook_entries_grow`). All nat chains are called by one hook function with the NAT priority, registered with the
/// oldest of them (`nf_nat_register_fn`); with `translates` it exists even without such a chain.
pub(super) fn stops(hook: Hook, chains: &[Hooked], translates: bool) -> Vec<Stop> {
    let here = || chains.iter().enumerate().filter(|(_, chain)| chain.hook == hook);
    let mut stops: Vec<(Order, Vec<Stop>)> = here()
        .filter_map(|(age, chain)| match chain.kind {
            Kind::Filter { reroutes } => {
                Some(((chain.priority, Reverse(age)), vec![Stop::Chain { chain: chain.chain, reroutes }]))
            }
            Kind::Nat => None,
        })
        .collect();
    if hook.is_entry() {
        // Registered as early as the kernel's own.
        stops.push(((CONNECTIONS, Reverse(0)), vec![Stop::Lookup]));
    }
    let oldest = chains.iter().position(|chain| chain.kind == Kind::Nat);
    if (translates || oldest.is_some()) && (hook.translates_destination() || hook.translates_source()) {
        let mut nat: Vec<_> = here()
            .filter(|(_, chain)| chain.kind == Kind::Nat)
            .map(|(age, chain)| ((chain.priority, Reverse(age)), Stop::Nat(chain.chain)))
            .collect();
        nat.sort_by_key(|(order, _)| *order);
        let nat = nat.into_iter().map(|(_, stop)| stop).chain([Stop::Translation]).collect();
        let priority = if hook.translates_destination() { DESTINATIONS } else { SOURCES };
        stops.push(((priority, Reverse(oldest.unwrap_or(0))), nat));
    }
    stops.sort_by_key(|(order, _)| *order);
    stops.into_iter().flat_map(|(_, stops)| stops).collect()
}
