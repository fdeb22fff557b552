//! A node's namespace.

use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ProxyMode};

use super::underlay::{self, router, router_mac};
use super::{
    ETH0, Fdb, Hop, Interface, InterfaceKind, Neighbour, Role, Route, Space, SpaceId, Sysctl, Topology, everything,
    host_prefix, mac_of,
};
use crate::scenario::{CniKind, Overlay, Scenario};

/// Plans a node, without its pods.
pub(super) fn plan(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster, node: &Node) {
    let mut space = Space::new(format!("node/{}", node.name), Role::Node);
    settings(&mut space, scenario, cluster, node);
    let id = topology.add(space);
    let addresses: Vec<IpAddr> = node.addresses().collect();
    let eth0 = underlay::plug_in(topology, id, &addresses);
    let space = &mut topology.spaces[id];
    for address in addresses {
        space.addresses.push((eth0, host_prefix(address)));
    }
    for family in Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()) {
        space.neighbours.push(Neighbour { interface: eth0, address: router(family), mac: router_mac() });
        space.routes.push(Route { destination: everything(family), hop: Hop::Gateway(router(family), eth0) });
    }
    ways_to_other_nodes(space, cluster, node, eth0);
    if scenario.cni.overlay == Overlay::Vxlan {
        plan_vxlan(space, id, cluster, node, eth0);
    } else {
        for (_, via, pod_cidr) in remote_ranges(cluster, node) {
            space.routes.push(Route { destination: pod_cidr, hop: Hop::Gateway(via, eth0) });
        }
    }
    if let CniKind::Bridge { .. } = scenario.cni.kind {
        plan_bridge(space, id, cluster, node);
    }
}

/// The nodes with their namespaces: nodes come right after the underlay, in the order of the cluster.
fn spaces(cluster: &Cluster) -> impl Iterator<Item = (SpaceId, &Node)> {
    (1..).zip(&cluster.nodes)
}

/// The namespace of a node.
pub(super) fn space_of(cluster: &Cluster, node: &str) -> Option<SpaceId> {
    spaces(cluster).find(|(_, candidate)| candidate.name == node).map(|(id, _)| id)
}

/// The kernel settings: what kubelet, kube-proxy and CNI plugins make of a node, then the scenario's own.
fn settings(space: &mut Space, scenario: &Scenario, cluster: &Cluster, node: &Node) {
    space.quiet_ipv6();
    space.forward_packets();
    if cluster.proxy.mode == ProxyMode::Iptables && cluster.proxy.localhost_node_ports {
        space.set("ipv4.conf.all.route_localnet", 1);
    }
    space.set("netfilter.nf_conntrack_tcp_be_liberal", u8::from(cluster.proxy.tcp_be_liberal));
    if let CniKind::Bridge { nf_call_iptables, .. } = scenario.cni.kind {
        space.set("bridge.bridge-nf-call-iptables", u8::from(nf_call_iptables));
        space.set("bridge.bridge-nf-call-ip6tables", u8::from(nf_call_iptables));
    }
    for (name, setting) in scenario.sysctls.get(&node.name).into_iter().flatten() {
        let name = name.strip_prefix("net.").unwrap_or(name).to_owned();
        space.sysctls.push(Sysctl { name, value: setting.value.clone(), asked_for: Some(setting.span.clone()) });
    }
}

fn ways_to_other_nodes(space: &mut Space, cluster: &Cluster, node: &Node, eth0: u32) {
    for (id, other) in spaces(cluster).filter(|(_, other)| other.name != node.name) {
        let mac = mac_of(id, ETH0);
        for address in other.internal_ips.iter().copied() {
            space.routes.push(Route { destination: host_prefix(address), hop: Hop::Link(eth0) });
            space.neighbours.push(Neighbour { interface: eth0, address, mac });
        }
    }
}

/// The pod ranges of other nodes: the node with its namespace, its address of that family, the range.
fn remote_ranges<'a>(
    cluster: &'a Cluster,
    node: &'a Node,
) -> impl Iterator<Item = ((SpaceId, &'a Node), IpAddr, IpNet)> {
    let others = spaces(cluster).filter(|(_, other)| other.name != node.name);
    others.flat_map(|(id, other)| {
        let address = move |cidr: &IpNet| other.internal_ip(Family::of(cidr.addr()));
        other.pod_cidrs.iter().filter_map(move |cidr| Some(((id, other), address(cidr)?, *cidr)))
    })
}

/// `flannel.1`: one VXLAN device, and for each other node a neighbour with the range's first address behind its address.
fn plan_vxlan(space: &mut Space, id: SpaceId, cluster: &Cluster, node: &Node, eth0: u32) {
    let Some(local) = node.internal_ip(Family::Ipv4).or_else(|| node.internal_ip(Family::Ipv6)) else { return };
    let index = space.next_index();
    let kind = InterfaceKind::Vxlan { over: eth0, local };
    space.interfaces.push(Interface::new(id, index, "flannel.1".to_owned(), kind));
    for cidr in &node.pod_cidrs {
        space.addresses.push((index, host_prefix(cidr.network())));
    }
    for ((other_id, other), _, pod_cidr) in remote_ranges(cluster, node) {
        let Some(remote) = other.internal_ip(Family::of(local)) else { continue };
        let mac = mac_of(other_id, index);
        let gateway = pod_cidr.network();
        space.routes.push(Route { destination: pod_cidr, hop: Hop::Gateway(gateway, index) });
        space.neighbours.push(Neighbour { interface: index, address: gateway, mac });
        let entry = Fdb { interface: index, mac, remote: Some(remote) };
        // The ranges of one node come one after the other.
        if space.fdb.last() != Some(&entry) {
            space.fdb.push(entry);
        }
    }
}

/// `cni0` with the first address of each of the node's ranges.
fn plan_bridge(space: &mut Space, id: SpaceId, cluster: &Cluster, node: &Node) {
    let name = match &cluster.proxy.detect_local {
        DetectLocal::BridgeInterface(name) => name.clone(),
        _ => "cni0".to_owned(),
    };
    let index = space.next_index();
    space.interfaces.push(Interface::new(id, index, name, InterfaceKind::Bridge));
    for cidr in &node.pod_cidrs {
        if let Some(gateway) = cidr.hosts().next() {
            space.addresses.push((index, IpNet::new_assert(gateway, cidr.prefix_len())));
        }
    }
}
