//! Nodes.

use std::collections::BTreeMap;
use std::net::IpAddr;

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
}

impl Node {
    /// The zone label's value.
    pub fn zone(&self) -> Option<&str> {
        self.labels.get("topology.kubernetes.io/zone").map(String::as_str)
    }

    /// The first internal address of a family.
    pub fn internal_ip(&self, family: Family) -> Option<IpAddr> {
        self.internal_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }

    /// All addresses, internal ones first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.internal_ips.iter().chain(&self.external_ips).copied()
    }
}
