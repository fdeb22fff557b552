//! The node addresses on which node ports are served.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::cluster::{Family, Node, ProxyConfig, ProxyMode};
use crate::profile::Profile;

/// The selection by `nodePortAddresses` for one family.
enum Chosen<'a> {
    /// All of the node's addresses.
    All,
    /// The node's primary address.
    Primary,
    /// Addresses in these ranges.
    Ranges(Vec<&'a IpNet>),
}

/// Returns whether a node serves node ports on an address.
pub(super) fn are_served(node: &Node, address: IpAddr, config: &ProxyConfig, profile: Profile) -> bool {
    if address.is_loopback() {
        return are_served_at_loopback(address, config, profile);
    }
    if !node.addresses().any(|own| own == address) {
        return false;
    }
    match chosen(config, Family::of(address), profile) {
        Chosen::All => true,
        Chosen::Primary => primary(node, Family::of(address)) == Some(address),
        Chosen::Ranges(ranges) => ranges.iter().any(|range| range.contains(&address)),
    }
}

/// Returns whether node ports are reachable on a loopback address: in iptables mode, for IPv4, unless `localhostNodePorts` (from 1.26) or
/// `nodePortAddresses` exclude it. With ranges, only 127.0.0.1 itself counts, because only that address is assigned to an interface.
///
/// KubeProxyIPTablesConfiguration `localhostNodePorts`; Virtual IPs and Service Proxies, "Migrating from iptables mode to
/// nftables"; KEP-3866, "Localhost NodePorts"; KEP-1138 for IPv6.
fn are_served_at_loopback(address: IpAddr, config: &ProxyConfig, profile: Profile) -> bool {
    let switched_off = profile.switches_localhost_node_ports_off(config);
    if config.mode != ProxyMode::Iptables || address.is_ipv6() || switched_off {
        return false;
    }
    match chosen(config, Family::Ipv4, profile) {
        Chosen::All => true,
        Chosen::Primary => false,
        Chosen::Ranges(ranges) => {
            address == IpAddr::V4(Ipv4Addr::LOCALHOST) && ranges.iter().any(|range| range.contains(&address))
        }
    }
}

/// Returns whether packets from 127.0.0.1 may be translated and leave the node: kube-proxy sets `route_localnet` for node ports on
/// localhost.
pub(super) fn loopback_is_open(config: &ProxyConfig, profile: Profile) -> bool {
    are_served_at_loopback(IpAddr::V4(Ipv4Addr::LOCALHOST), config, profile)
}

/// Returns the selection for a family. Without ranges, iptables mode uses all addresses and nftables mode the primary one; a range of all
/// addresses is the same as no range. A family without a range is undocumented: node ports are served on all its addresses, except in
/// nftables mode up to 1.30, which uses its primary address (`NewNodePortAddresses` in kube-proxy's `pkg/proxy/util`; before 1.21, a
/// kube-proxy has one family and compares all ranges with it).
///
/// KubeProxyConfiguration `nodePortAddresses`; Virtual IPs and Service Proxies, "Migrating from iptables mode to
/// nftables".
fn chosen(config: &ProxyConfig, family: Family, profile: Profile) -> Chosen<'_> {
    let is_nftables = config.mode == ProxyMode::Nftables;
    let by_default = config.node_port_addresses.is_empty();
    if config.primary_node_ports || (by_default && is_nftables) {
        return Chosen::Primary;
    }
    let of_family = |range: &&IpNet| Family::of(range.addr()) == family;
    let all = config.node_port_addresses.iter();
    let ranges: Vec<&IpNet> = all.filter(|range| of_family(range) || !profile.both_families()).collect();
    let unlimited = ranges.iter().any(|range| of_family(range) && range.prefix_len() == 0);
    if ranges.is_empty() && is_nftables && !profile.unnamed_family_serves_all() {
        return Chosen::Primary;
    }
    if unlimited || ranges.is_empty() { Chosen::All } else { Chosen::Ranges(ranges) }
}

/// Returns a node's primary address of a family: the first `InternalIP`, otherwise the first `ExternalIP`.
fn primary(node: &Node, family: Family) -> Option<IpAddr> {
    node.addresses().find(|address| Family::of(*address) == family)
}
