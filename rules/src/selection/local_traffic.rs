//! Detection of traffic from local pods.

use ipnet::IpNet;

use crate::cluster::{DetectLocal, Family, Node, ProxyConfig};

/// The criterion for packets from pods (`detectLocalMode`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LocalTraffic {
    /// No detection: no rule depends on the source.
    Unknown,
    /// By source address in this range.
    Source(IpNet),
    /// By input interface of this name.
    Interface(String),
    /// By input interface with this name prefix.
    InterfacePrefix(String),
}

impl LocalTraffic {
    /// Returns the criterion of a node's kube-proxy for a family.
    pub(crate) fn of(config: &ProxyConfig, node: &Node, family: Family) -> Self {
        let ranges = match &config.detect_local {
            DetectLocal::ClusterCidr => &config.cluster_cidrs,
            DetectLocal::NodeCidr => &node.pod_cidrs,
            DetectLocal::BridgeInterface(name) => return Self::Interface(name.clone()),
            DetectLocal::InterfaceNamePrefix(prefix) => return Self::InterfacePrefix(prefix.clone()),
        };
        let range = ranges.iter().find(|range| Family::of(range.addr()) == family);
        range.map_or(Self::Unknown, |range| Self::Source(*range))
    }
}
