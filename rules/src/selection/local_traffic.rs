//! How rules distinguish traffic of local pods from other traffic.

use ipnet::IpNet;

use crate::cluster::{DetectLocal, Family, Node, ProxyConfig};

/// What packets from pods have that others have not (`detectLocalMode`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LocalTraffic {
    /// Nothing is known of pods: no rule depends on them.
    Unknown,
    /// A source address in a range.
    Source(IpNet),
    /// They come by the interface of this name.
    Interface(String),
    /// They come by an interface whose name starts so.
    InterfacePrefix(String),
}

impl LocalTraffic {
    /// What a node's kube-proxy goes by for a family.
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
