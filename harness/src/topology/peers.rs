//! The routes and neighbours by which nodes reach each other, planned once for all nodes.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node};

use super::model::Peers;
use super::{ETH0, Fdb, Hop, Neighbour, NetnsId, Route, host_prefix, mac_of};

/// The index of `flannel.1` in every node: the device comes right after `eth0`.
pub(super) const VXLAN: u32 = ETH0 + 1;

impl Peers {
    /// Peers for nodes that route the packets of pods to each other.
    pub(super) fn routed(cluster: &Cluster) -> Self {
        let mut peers = Self::addresses(cluster);
        for (id, via, range) in ranges(cluster).chain(stray_pods(cluster)) {
            peers.routes.push((id, Route { destination: range, hop: Hop::Gateway(via, ETH0) }));
        }
        peers
    }

    /// Peers for nodes that connect their pods by VXLAN over their addresses of a family: each node is the neighbour with the first address
    /// of each of its ranges.
    pub(super) fn tunnelled(cluster: &Cluster, over: Family) -> Self {
        let mut peers = Self::addresses(cluster);
        for (id, node) in namespaces(cluster) {
            let Some(remote) = node.internal_ip(over) else { continue };
            let mac = mac_of(id, VXLAN);
            let served = |range: &&IpNet| node.internal_ip(Family::of(range.addr())).is_some();
            for range in node.pod_cidrs.iter().filter(served) {
                let gateway = range.network();
                peers.routes.push((id, Route { destination: *range, hop: Hop::Gateway(gateway, VXLAN) }));
                peers.neighbours.push((id, Neighbour { interface: VXLAN, address: gateway, mac }));
            }
            if node.pod_cidrs.iter().any(|range| served(&range)) {
                peers.fdb.push((id, Fdb { interface: VXLAN, mac, remote: Some(remote) }));
            }
        }
        for (id, _, address) in stray_pods(cluster) {
            let same = |range: &&IpNet| Family::of(range.addr()) == Family::of(address.addr());
            let Some(range) = cluster.nodes[id - 1].pod_cidrs.iter().find(same) else { continue };
            peers.routes.push((id, Route { destination: address, hop: Hop::Gateway(range.network(), VXLAN) }));
        }
        peers
    }

    /// Peers for the nodes' own addresses only.
    fn addresses(cluster: &Cluster) -> Self {
        let mut peers = Self::default();
        for (id, node) in namespaces(cluster) {
            let mac = mac_of(id, ETH0);
            for address in node.internal_ips.iter().copied() {
                peers.routes.push((id, Route { destination: host_prefix(address), hop: Hop::Link(ETH0) }));
                peers.neighbours.push((id, Neighbour { interface: ETH0, address, mac }));
            }
        }
        peers
    }
}

/// The nodes with their namespaces: nodes come right after the underlay, in the order of the cluster.
pub(super) fn namespaces(cluster: &Cluster) -> impl Iterator<Item = (NetnsId, &Node)> {
    (1..).zip(&cluster.nodes)
}

/// The pod ranges of nodes: the node, its address of that family, the range.
fn ranges(cluster: &Cluster) -> impl Iterator<Item = (NetnsId, IpAddr, IpNet)> {
    namespaces(cluster).flat_map(|(id, node)| {
        let address = |range: &IpNet| node.internal_ip(Family::of(range.addr()));
        node.pod_cidrs.iter().filter_map(move |range| Some((id, address(range)?, *range)))
    })
}

/// The addresses of pods outside of their node's ranges, each as a range: see [`ranges`].
fn stray_pods(cluster: &Cluster) -> impl Iterator<Item = (NetnsId, IpAddr, IpNet)> {
    let nodes: HashMap<&str, (NetnsId, &Node)> =
        namespaces(cluster).map(|(id, node)| (node.name.as_str(), (id, node))).collect();
    let pods = cluster.pods.iter().filter(|pod| !pod.host_network);
    pods.filter_map(move |pod| Some((nodes.get(pod.node.as_str()).copied()?, pod))).flat_map(|((id, node), pod)| {
        let strays = pod.ips.iter().copied().filter(|ip| is_outside_node_ranges(node, *ip));
        strays.filter_map(move |ip| Some((id, node.internal_ip(Family::of(ip))?, host_prefix(ip))))
    })
}

/// Whether a pod's address is outside of its node's ranges.
pub(super) fn is_outside_node_ranges(node: &Node, ip: IpAddr) -> bool {
    !node.pod_cidrs.iter().any(|range| range.contains(&ip))
}
