//! Addresses that rules serve node ports on, and that the node does not have.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::infer::Inferred;

use super::usual_ranges::usual_range;

/// Node port addresses in rules that are not the node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unassigned {
    /// The addresses in the rules that the node does not have.
    pub(crate) addresses: Vec<IpAddr>,
    /// The node's addresses, without those of bridges for pods.
    pub(crate) own: Vec<IpAddr>,
    /// Whether node ports are also served on an address that the node has.
    pub(crate) has_assigned: bool,
}

impl Unassigned {
    /// The node's first address of the same family.
    pub(super) fn substitute(&self, ip: IpAddr) -> Option<IpAddr> {
        self.own.iter().copied().find(|own| own.is_ipv4() == ip.is_ipv4())
    }
}

/// Finds the addresses that rules serve node ports on and a node does not have, if the text lists its addresses of this family.
pub(crate) fn find_unassigned(inferred: &Inferred, addresses: &[IpAddr]) -> Option<Unassigned> {
    let own = own_addresses(inferred, addresses);
    let known: BTreeSet<IpAddr> = addresses.iter().copied().collect();
    let served = &inferred.proxy.node_port_addresses;
    let has_assigned = served.iter().any(|ip| known.contains(ip));
    let mut found = Unassigned { addresses: Vec::new(), own, has_assigned };
    let is_unassigned = |ip: &&IpAddr| !ip.is_loopback() && !known.contains(*ip) && found.substitute(**ip).is_some();
    found.addresses = served.iter().filter(is_unassigned).copied().collect();
    (!found.addresses.is_empty()).then_some(found)
}

/// The addresses of a node's own networks, of those that the text lists: without those of bridges for pods.
pub(super) fn own_addresses(inferred: &Inferred, addresses: &[IpAddr]) -> Vec<IpAddr> {
    let endpoints = inferred.ports.iter().flat_map(|port| port.endpoints.iter().chain(&port.local));
    let pod_ranges: BTreeSet<IpNet> = endpoints.map(|endpoint| usual_range(endpoint.ip())).collect();
    let is_pods = |ip: &IpAddr| {
        pod_ranges.contains(&usual_range(*ip)) || inferred.proxy.local_sources.iter().any(|range| range.contains(ip))
    };
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
    addresses.iter().filter(|ip| !ip.is_loopback() && !is_link_local(ip) && !is_pods(ip)).copied().collect()
}
