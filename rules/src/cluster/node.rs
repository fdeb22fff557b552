//! Nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Family;

/// A machine of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The node's name, also what EndpointSlices call it.
    pub name: String,
    /// Labels; `topology.kubernetes.io/zone` decides on topology hints.
    pub labels: BTreeMap<String, String>,
    /// `InternalIP` addresses, the primary one first.
    pub internal_ips: Vec<IpAddr>,
    /// `ExternalIP` addresses.
    pub external_ips: Vec<IpAddr>,
    /// The ranges of this node's pod addresses.
    pub pod_cidrs: Vec<IpNet>,
    /// The node name that the node's kube-proxy uses, if it differs (`hostnameOverride` of a KubeProxyConfiguration).
    pub hostname_override: Option<String>,
    /// The release of the node's kube-proxy, if it differs from the cluster's, as during an upgrade.
    pub release: Option<String>,
}

impl Node {
    /// The zone label's value.
    pub fn zone(&self) -> Option<&str> {
        self.labels.get("topology.kubernetes.io/zone").map(String::as_str)
    }

    /// Returns the name that the node's kube-proxy looks for in EndpointSlices and uses to get its Node object.
    pub(crate) fn proxy_name(&self) -> &str {
        self.hostname_override.as_deref().unwrap_or(&self.name)
    }

    /// Returns whether the node's kube-proxy finds its Node object. If not, it knows neither labels nor addresses of the node.
    fn proxy_finds_itself(&self) -> bool {
        self.proxy_name() == self.name
    }

    /// Returns the zone of the node, as known to its kube-proxy.
    pub(crate) fn proxy_zone(&self) -> Option<&str> {
        self.zone().filter(|_| self.proxy_finds_itself())
    }

    /// The first internal address of a family.
    pub fn internal_ip(&self, family: Family) -> Option<IpAddr> {
        self.internal_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }

    /// Returns the node IP that kube-proxy uses in a family: the first internal address, otherwise the first external one, otherwise the
    /// loopback address, which it also uses if it does not find its Node (`GetNodeHostIPs` in `pkg/util/node`, `detectNodeIPs` in
    /// `cmd/kube-proxy`).
    pub(crate) fn proxy_ip(&self, family: Family) -> IpAddr {
        let own = self.addresses().find(|address| Family::of(*address) == family);
        own.filter(|_| self.proxy_finds_itself()).unwrap_or(match family {
            Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
            Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
        })
    }

    /// All addresses, internal ones first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.internal_ips.iter().chain(&self.external_ips).copied()
    }
}
