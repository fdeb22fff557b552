//! A node's namespace.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, DetectLocal, Family, Node, ProxyMode};
use svclab_rules::profile::Profile;

use super::model::{PeerRoutes, Peers};
use super::peers::{VXLAN, namespaces};
use super::underlay::{self, router, router_mac};
use super::{
    ETH0, Hop, Interface, InterfaceKind, Neighbour, Netns, NetnsId, Role, Route, Sysctl, Topology, host_prefix,
};
use crate::scenario::{CniKind, Overlay, Scenario};

/// Plans all nodes, without their pods.
pub(super) fn plan_all(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster) {
    let peers = match scenario.cni.overlay {
        Overlay::None => {
            let peers = Arc::new(Peers::routed(cluster));
            [peers.clone(), peers]
        }
        Overlay::Vxlan => Family::ALL.map(|family| Arc::new(Peers::tunnelled(cluster, family))),
    };
    for node in &cluster.nodes {
        plan(topology, scenario, cluster, node, &peers);
    }
}

/// Plans a node. `peers` are those of nodes with a primary address of each family.
fn plan(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster, node: &Node, peers: &[Arc<Peers>; 2]) {
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
        netns.routes.push(Route { destination: family.everything(), hop: Hop::Gateway(router(family), eth0) });
    }
    if let Some(local) = node.internal_ip(Family::Ipv4).or_else(|| node.internal_ip(Family::Ipv6)) {
        if scenario.cni.overlay == Overlay::Vxlan {
            plan_vxlan(netns, id, node, local);
        }
        netns.peers = Some(PeerRoutes { peers: peers[Family::of(local) as usize].clone(), own: id });
    }
    if let CniKind::Bridge { .. } = scenario.cni.kind {
        plan_bridge(netns, id, cluster, node);
    }
}

/// The namespace of a node.
pub(super) fn netns_of(cluster: &Cluster, node: &str) -> Option<NetnsId> {
    namespaces(cluster).find(|(_, candidate)| candidate.name == node).map(|(id, _)| id)
}

/// The kernel settings: those of kubelet, kube-proxy and CNI plugins, then the scenario's own.
fn settings(netns: &mut Netns, scenario: &Scenario, cluster: &Cluster, node: &Node) {
    netns.quiet_ipv6();
    netns.forward_packets();
    let release: Result<Profile, _> = cluster.release_on(node).parse();
    let is_off = release.is_ok_and(|release| release.switches_localhost_node_ports_off(&cluster.proxy));
    if cluster.proxy.mode == ProxyMode::Iptables && !is_off {
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

/// `flannel.1`: one VXLAN device for all other nodes.
fn plan_vxlan(netns: &mut Netns, id: NetnsId, node: &Node, local: IpAddr) {
    let kind = InterfaceKind::Vxlan { over: ETH0, local };
    netns.interfaces.push(Interface::new(id, VXLAN, "flannel.1".to_owned(), kind));
    for cidr in &node.pod_cidrs {
        netns.addresses.push((VXLAN, host_prefix(cidr.network())));
    }
}

/// `cni0` with the first unused address of each of the node's ranges.
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
