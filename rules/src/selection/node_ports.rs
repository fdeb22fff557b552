//! On which addresses of the node node ports are served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::cluster::{Family, Node, ProxyConfig, ProxyMode};
use crate::profile::Profile;

/// The part of `nodePortAddresses` that is for a family (`NodePortAddresses` in kube-proxy's `pkg/proxy/util`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodePortAddresses {
    /// All addresses of the node.
    All,
    /// Addresses in one of these ranges.
    In(Vec<IpNet>),
}

impl NodePortAddresses {
    /// What a node's kube-proxy goes by in a mode: the ranges of the family, or its own address where the configuration
    /// has the word `primary`, which nftables mode takes for an empty list. Where that leaves none, all addresses count.
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

    /// The node's addresses of a family, loopback last, without [`Self::All`]'s.
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

    /// Whether IPv4's loopback addresses are among them.
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

/// Whether a range stands for all addresses. Written with host bits, as `10.0.0.0/0`, it did not always.
fn is_everything(range: &IpNet, profile: Profile) -> bool {
    range.prefix_len() == 0 && (range.addr().is_unspecified() || profile.zero_range_by_length())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A node with one IPv4 address, and what `nodePortAddresses` says: the word or ranges.
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
