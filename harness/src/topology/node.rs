//! A node's namespace.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ProxyMode};

use super::underlay::{self, router, router_mac};
use super::{
    ETH0, Fdb, Hop, Interface, InterfaceKind, Neighbour, Netns, NetnsId, Role, Route, Sysctl, Topology, everything,
    host_prefix, mac_of,
};
use crate::scenario::{CniKind, Overlay, Scenario};

/// Plans a node, without its pods.
pub(super) fn plan(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster, node: &Node) {
    let mut netns = Netns::new(format!("node/{}", node.name), Role::Node);
    settings(&mut netns, scenario, cluster, node);
    let id = topology.add(netns);
    let addresses: Vec<IpAddr> = node.addresses().collect();
    let eth0 = underlay::plug_in(topology, id, &addresses);
    let netns = &mut topology.namespaces[id];
    for address in addresses {
        netns.addresses.push((eth0, host_prefix(address)));
    }
    for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
        netns.neighbours.push(Neighbour { interface: eth0, address: router(family), mac: router_mac() });
        netns.routes.push(Route { destination: everything(family), hop: Hop::Gateway(router(family), eth0) });
    }
    ways_to_other_nodes(netns, cluster, node, eth0);
    if scenario.cni.overlay == Overlay::Vxlan {
        plan_vxlan(netns, id, cluster, node, eth0);
    } else {
        for (_, via, pod_cidr) in remote_ranges(cluster, node).chain(remote_pods(cluster, node)) {
            netns.routes.push(Route { destination: pod_cidr, hop: Hop::Gateway(via, eth0) });
        }
    }
    if let CniKind::Bridge { .. } = scenario.cni.kind {
        plan_bridge(netns, id, cluster, node);
    }
}

/// The nodes with their namespaces: nodes come right after the underlay, in the order of the cluster.
fn namespaces(cluster: &Cluster) -> impl Iterator<Item = (NetnsId, &Node)> {
    (1..).zip(&cluster.nodes)
}

/// The namespace of a node.
pub(super) fn netns_of(cluster: &Cluster, node: &str) -> Option<NetnsId> {
    namespaces(cluster).find(|(_, candidate)| candidate.name == node).map(|(id, _)| id)
}

/// The kernel settings: what kubelet, kube-proxy and CNI plugins make of a node, then the scenario's own.
fn settings(netns: &mut Netns, scenario: &Scenario, cluster: &Cluster, node: &Node) {
    netns.quiet_ipv6();
    netns.forward_packets();
    if cluster.proxy.mode == ProxyMode::Iptables && cluster.proxy.localhost_node_ports {
        netns.set("ipv4.conf.all.route_localnet", 1);
    }
    netns.set("netfilter.nf_conntrack_tcp_be_liberal", u8::from(cluster.proxy.tcp_be_liberal));
    if let CniKind::Bridge { nf_call_iptables, .. } = scenario.cni.kind {
        netns.set("bridge.bridge-nf-call-iptables", u8::from(nf_call_iptables));
        netns.set("bridge.bridge-nf-call-ip6tables", u8::from(nf_call_iptables));
    }
    for (name, setting) in scenario.sysctls.get(&node.name).into_iter().flatten() {
        let name = name.strip_prefix("net.").unwrap_or(name).to_owned();
        netns.sysctls.push(Sysctl { name, value: setting.value.clone(), asked_for: Some(setting.span.clone()) });
    }
}

fn ways_to_other_nodes(netns: &mut Netns, cluster: &Cluster, node: &Node, eth0: u32) {
    for (id, other) in namespaces(cluster).filter(|(_, other)| other.name != node.name) {
        let mac = mac_of(id, ETH0);
        for address in other.internal_ips.iter().copied() {
            netns.routes.push(Route { destination: host_prefix(address), hop: Hop::Link(eth0) });
            netns.neighbours.push(Neighbour { interface: eth0, address, mac });
        }
    }
}

/// The addresses of pods on other nodes that lie outside of the range of their node, each as a range: see [`remote_ranges`].
fn remote_pods<'a>(cluster: &'a Cluster, node: &'a Node) -> impl Iterator<Item = ((NetnsId, &'a Node), IpAddr, IpNet)> {
    let others: HashMap<&str, (NetnsId, &Node)> =
        namespaces(cluster).filter(|(_, other)| other.name != node.name).map(|it| (it.1.name.as_str(), it)).collect();
    let pods = cluster.pods.iter().filter(|pod| !pod.host_network);
    pods.filter_map(move |pod| Some((others.get(pod.node.as_str()).copied()?, pod))).flat_map(|(other, pod)| {
        let strays = pod.ips.iter().copied().filter(move |ip| is_stray(other.1, *ip));
        strays.filter_map(move |ip| Some((other, other.1.internal_ip(Family::of(ip))?, host_prefix(ip))))
    })
}

/// Whether a pod's address is outside of its node's ranges.
pub(super) fn is_stray(node: &Node, ip: IpAddr) -> bool {
    !node.pod_cidrs.iter().any(|range| range.contains(&ip))
}

/// The pod ranges of other nodes: the node with its namespace, its address of that family, the range.
fn remote_ranges<'a>(
    cluster: &'a Cluster,
    node: &'a Node,
) -> impl Iterator<Item = ((NetnsId, &'a Node), IpAddr, IpNet)> {
    let others = namespaces(cluster).filter(|(_, other)| other.name != node.name);
    others.flat_map(|(id, other)| {
        let address = move |cidr: &IpNet| other.internal_ip(Family::of(cidr.addr()));
        other.pod_cidrs.iter().filter_map(move |cidr| Some(((id, other), address(cidr)?, *cidr)))
    })
}

/// `flannel.1`: one VXLAN device, and for each other node a neighbour with the range's first address behind its address.
fn plan_vxlan(netns: &mut Netns, id: NetnsId, cluster: &Cluster, node: &Node, eth0: u32) {
    let Some(local) = node.internal_ip(Family::Ipv4).or_else(|| node.internal_ip(Family::Ipv6)) else { return };
    let index = netns.next_index();
    let kind = InterfaceKind::Vxlan { over: eth0, local };
    netns.interfaces.push(Interface::new(id, index, "flannel.1".to_owned(), kind));
    for cidr in &node.pod_cidrs {
        netns.addresses.push((index, host_prefix(cidr.network())));
    }
    for ((other_id, other), _, pod_cidr) in remote_ranges(cluster, node) {
        let Some(remote) = other.internal_ip(Family::of(local)) else { continue };
        let mac = mac_of(other_id, index);
        let gateway = pod_cidr.network();
        netns.routes.push(Route { destination: pod_cidr, hop: Hop::Gateway(gateway, index) });
        netns.neighbours.push(Neighbour { interface: index, address: gateway, mac });
        let entry = Fdb { interface: index, mac, remote: Some(remote) };
        // The ranges of one node come one after the other.
        if netns.fdb.last() != Some(&entry) {
            netns.fdb.push(entry);
        }
    }
    for ((_, other), _, address) in remote_pods(cluster, node) {
        let same = |range: &&IpNet| Family::of(range.addr()) == Family::of(address.addr());
        let Some(range) = other.pod_cidrs.iter().find(same) else { continue };
        netns.routes.push(Route { destination: address, hop: Hop::Gateway(range.network(), index) });
    }
}

/// `cni0` with the first address of each of the node's ranges that no pod has.
fn plan_bridge(netns: &mut Netns, id: NetnsId, cluster: &Cluster, node: &Node) {
    let name = match &cluster.proxy.detect_local {
        DetectLocal::BridgeInterface(name) => name.clone(),
        _ => "cni0".to_owned(),
    };
    let index = netns.next_index();
    netns.interfaces.push(Interface::new(id, index, name, InterfaceKind::Bridge));
    let pods = cluster.pods.iter().filter(|pod| pod.node == node.name && !pod.host_network);
    let of_pods: HashSet<IpAddr> = pods.flat_map(|pod| &pod.ips).copied().collect();
    for cidr in &node.pod_cidrs {
        if let Some(gateway) = cidr.hosts().find(|address| !of_pods.contains(address)) {
            netns.addresses.push((index, IpNet::new_assert(gateway, cidr.prefix_len())));
        }
    }
}
