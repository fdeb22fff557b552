//! Which addresses and pod ranges are of which node, as objects show them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::accessors::{endpoint_ips, ips, node_ips, node_ranges, own_name, serving_ips};
use super::super::merge::Objects;
use super::super::usual_ranges::usual_range;

/// The nodes of addresses, as objects show them.
pub(super) struct ShownNodes {
    addresses: BTreeMap<IpAddr, String>,
    /// The pod ranges of nodes; the usual ones around pods of nodes without one.
    pub(super) ranges: Vec<(IpNet, String)>,
    /// All addresses of machines, pods and endpoints.
    pub(super) taken: BTreeSet<IpAddr>,
}

impl ShownNodes {
    pub(super) fn of(objects: &Objects) -> Self {
        let of_nodes = objects.nodes.iter().flat_map(|node| node_ips(node).into_iter().map(|ip| (ip, own_name(node))));
        let of_pods = objects.pods.iter().flat_map(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            ips(pod).into_iter().map(|ip| (ip, node.to_owned()))
        });
        let given = objects.nodes.iter();
        let given = given.flat_map(|node| node_ranges(node).into_iter().map(|range| (range, own_name(node))));
        let mut ranges: Vec<(IpNet, String)> = given.collect();
        let machines: BTreeSet<IpAddr> = objects.nodes.iter().flat_map(node_ips).collect();
        let pods: BTreeMap<IpAddr, String> = of_pods.collect();
        let mut nodes: BTreeMap<IpNet, BTreeSet<&String>> = BTreeMap::new();
        for (ip, node) in pods.iter().filter(|(ip, _)| !machines.contains(ip)) {
            nodes.entry(usual_range(*ip)).or_default().insert(node);
        }
        // Some networks have pods of several nodes in one range.
        for (usual, node) in nodes.into_iter().filter(|(_, nodes)| nodes.len() == 1) {
            if !ranges.iter().any(|(range, _)| range.contains(&usual) || usual.contains(range)) {
                ranges.extend(node.into_iter().map(|node| (usual, node.clone())));
            }
        }
        let addresses: BTreeMap<IpAddr, String> = of_nodes.chain(pods).collect();
        let endpoints = objects.endpoints.iter().flat_map(|one| [endpoint_ips(one), serving_ips(one)].concat());
        let taken = addresses.keys().copied().chain(endpoints).collect();
        Self { addresses, ranges, taken }
    }

    /// The node of an address.
    pub(super) fn node(&self, ip: IpAddr) -> Option<&str> {
        let by_range = || self.ranges.iter().find(|(range, _)| range.contains(&ip)).map(|(_, node)| node);
        self.addresses.get(&ip).or_else(by_range).map(String::as_str)
    }
}
