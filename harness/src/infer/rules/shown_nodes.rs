//! Which addresses and pod ranges are of which node, as objects show them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::super::accessors::{endpoint_ips, ips, node_ips, node_ranges, own_name, service_of, serving_ips};
use super::super::merge::Objects;
use super::super::service_ports::is_api_server;
use super::super::usual_ranges::usual_range;

/// The nodes of addresses, as objects show them.
pub(super) struct ShownNodes {
    addresses: BTreeMap<IpAddr, String>,
    /// The pod ranges of nodes; the usual ones around pods of nodes without one.
    pub(super) ranges: Vec<(IpNet, String)>,
    /// The addresses of pods that are not their node's.
    pub(super) pods: BTreeSet<IpAddr>,
    /// The addresses of endpoints other than the API server's that are not a node's.
    pub(super) endpoints: BTreeSet<IpAddr>,
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
        let ips_of = |one: &Value| [endpoint_ips(one), serving_ips(one)].concat();
        let is_other = |ip: &IpAddr| !machines.contains(ip);
        let of_services = objects.endpoints.iter().filter(|one| !is_api_server(&service_of(one))).flat_map(ips_of);
        let endpoints = of_services.filter(is_other).collect();
        let of_pods = pods.keys().copied().filter(is_other).collect();
        let addresses: BTreeMap<IpAddr, String> = of_nodes.chain(pods).collect();
        let taken = addresses.keys().copied().chain(objects.endpoints.iter().flat_map(ips_of)).collect();
        Self { addresses, ranges, pods: of_pods, endpoints, taken }
    }

    /// The node of an address.
    pub(super) fn node(&self, ip: IpAddr) -> Option<&str> {
        let by_range = || self.ranges.iter().find(|(range, _)| range.contains(&ip)).map(|(_, node)| node);
        self.addresses.get(&ip).or_else(by_range).map(String::as_str)
    }
}
