//! The node addresses on which node ports are served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::{Family, Node, ProxyConfig, ProxyMode};
use crate::profile::Profile;

/// The part of `nodePortAddresses` for a family (`NodePortAddresses` in kube-proxy's `pkg/proxy/util`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodePortAddresses {
    /// All addresses of the node.
    All,
    /// Addresses in one of these ranges.
    In(Vec<IpNet>),
}

impl NodePortAddresses {
    /// Returns the selection of a node's kube-proxy in a mode: the ranges of the family, or the node's primary address if the configuration
    /// says `primary`, which is nftables mode's default for an empty list. If none is left, all addresses count.
    pub(crate) fn of(config: &ProxyConfig, node: &Node, family: Family, mode: ProxyMode, profile: Profile) -> Self {
        let given = &config.node_port_addresses;
        let of_family = |range: &&IpNet| Family::of(range.addr()) == family;
        let ranges: Vec<IpNet> =
            given.iter().filter(|range| !profile.both_families() || of_family(range)).copied().collect();
        let serves_all = profile.unnamed_family_serves_all();
        let names_none = if serves_all { given.is_empty() } else { ranges.is_empty() };
        if config.primary_node_ports || mode == ProxyMode::Nftables && names_none {
            let primary = node.proxy_ip(family);
            return if primary.is_loopback() && serves_all { Self::All } else { Self::In(vec![primary.into()]) };
        }
        let everything = ranges.iter().filter(of_family).any(|range| is_everything(range, profile));
        if ranges.is_empty() || everything { Self::All } else { Self::In(ranges) }
    }

    /// Returns the selected addresses of a node in a family, loopback last; none for [`Self::All`].
    pub(crate) fn addresses(&self, node: &Node, family: Family) -> Vec<IpAddr> {
        let Self::In(ranges) = self else { return Vec::new() };
        let loopback: IpAddr = match family {
            Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
            Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
        };
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in node.addresses().chain([loopback]) {
            let served = Family::of(address) == family && ranges.iter().any(|range| range.contains(&address));
            if served && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Returns whether IPv4 loopback addresses are among them.
    pub(crate) fn cover_loopback(&self) -> bool {
        let start = IpAddr::from([127, 0, 0, 0]);
        match self {
            Self::All => true,
            Self::In(ranges) => ranges
                .iter()
                .any(|range| range.addr().is_ipv4() && (range.network().is_loopback() || range.contains(&start))),
        }
    }
}

/// Returns whether a range means all addresses. In older releases it does not if it has host bits, as in `10.0.0.0/0`.
fn is_everything(range: &IpNet, profile: Profile) -> bool {
    range.prefix_len() == 0 && (range.addr().is_unspecified() || profile.zero_range_by_length())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A node with one IPv4 address, and `nodePortAddresses` with the word `primary` or ranges.
    #[rstest]
    #[case::unset(ProxyMode::Iptables, "1.30", "", Family::Ipv4, "all")]
    #[case::unset_in_nftables_mode(ProxyMode::Nftables, "1.30", "", Family::Ipv4, "192.168.10.11/32")]
    #[case::no_address_in_the_family(ProxyMode::Nftables, "1.31", "", Family::Ipv6, "all")]
    #[case::no_address_in_1_30(ProxyMode::Nftables, "1.30", "", Family::Ipv6, "::1/128")]
    #[case::primary(ProxyMode::Iptables, "1.32", "primary", Family::Ipv4, "192.168.10.11/32")]
    #[case::primary_without_address(ProxyMode::Iptables, "1.32", "primary", Family::Ipv6, "all")]
    #[case::range(ProxyMode::Nftables, "1.34", "192.168.0.0/16", Family::Ipv4, "192.168.0.0/16")]
    #[case::no_range_in_the_family(ProxyMode::Nftables, "1.31", "192.168.0.0/16", Family::Ipv6, "all")]
    #[case::no_range_in_1_30(ProxyMode::Nftables, "1.30", "10.0.0.0/8", Family::Ipv6, "::1/128")]
    #[case::no_range_in_iptables_mode(ProxyMode::Iptables, "1.30", "10.0.0.0/8", Family::Ipv6, "all")]
    #[case::everything(ProxyMode::Nftables, "1.30", "10.0.0.0/8 0.0.0.0/0", Family::Ipv4, "all")]
    #[case::everything_with_host_bits(ProxyMode::Nftables, "1.34", "10.0.0.0/0", Family::Ipv4, "all")]
    #[case::host_bits_before(ProxyMode::Nftables, "1.33", "10.0.0.0/0", Family::Ipv4, "10.0.0.0/0")]
    #[case::single_family(ProxyMode::Iptables, "1.18", "fd00::/8", Family::Ipv4, "fd00::/8")]
    fn ranges_of_a_family(
        #[case] mode: ProxyMode,
        #[case] version: &str,
        #[case] given: &str,
        #[case] family: Family,
        #[case] expected: &str,
    ) {
        let node = Node { internal_ips: vec!["192.168.10.11".parse().unwrap()], ..Node::default() };
        let primary_node_ports = given == "primary";
        let ranges = given.split_whitespace().filter(|_| !primary_node_ports).map(|range| range.parse().unwrap());
        let config =
            ProxyConfig { node_port_addresses: ranges.collect(), primary_node_ports, ..ProxyConfig::default() };
        let shown = match NodePortAddresses::of(&config, &node, family, mode, version.parse().unwrap()) {
            NodePortAddresses::All => "all".to_owned(),
            NodePortAddresses::In(ranges) => ranges.iter().map(IpNet::to_string).collect::<Vec<_>>().join(" "),
        };
        assert_eq!(shown, expected);
    }
}
