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
    /// The ranges that this node's pods have their addresses from.
    pub pod_cidrs: Vec<IpNet>,
    /// The name that the node's kube-proxy takes for its node's, if that is another one (`hostnameOverride` of a
    /// KubeProxyConfiguration).
    pub hostname_override: Option<String>,
    /// The release of the node's kube-proxy, if that is another one than the cluster's: in an upgrade, nodes have several.
    pub release: Option<String>,
}

impl Node {
    /// The zone label's value.
    pub fn zone(&self) -> Option<&str> {
        self.labels.get("topology.kubernetes.io/zone").map(String::as_str)
    }

    /// The name that the node's kube-proxy looks for in EndpointSlices, and by which it asks for its Node.
    pub(crate) fn proxy_name(&self) -> &str {
        self.hostname_override.as_deref().unwrap_or(&self.name)
    }

    /// Whether the node's kube-proxy finds its Node. One that does not knows neither its labels nor its addresses.
    fn proxy_finds_itself(&self) -> bool {
        self.proxy_name() == self.name
    }

    /// The zone that the node's kube-proxy knows.
    pub(crate) fn proxy_zone(&self) -> Option<&str> {
        self.zone().filter(|_| self.proxy_finds_itself())
    }

    /// The first internal address of a family.
    pub fn internal_ip(&self, family: Family) -> Option<IpAddr> {
        self.internal_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }

    /// The address that kube-proxy takes for the node's own in a family: the first internal one, else the first external
    /// one, else the loopback address, as where it does not find its Node (`GetNodeHostIPs` in `pkg/util/node`, `detectNodeIPs` in `cmd/kube-proxy`).
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
