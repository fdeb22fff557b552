//! A pod's namespace and its link to the node.

use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, DetectLocal, Family, Pod};

use super::node::netns_of;
use super::peers::is_outside_node_ranges;
use super::underlay::router;
use super::{ETH0, Fdb, Hop, InterfaceKind, Neighbour, Netns, NetnsId, Role, Route, Topology, host_prefix, mac_of};
use crate::scenario::{CniKind, Scenario, pod_label};
use crate::wire::Mac;

/// Plans a pod and connects it to its node.
pub(super) fn plan(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster, pod: &Pod, has_stack: bool) {
    let Some(node) = netns_of(cluster, &pod.node) else { return };
    let role = if has_stack { Role::RoutingPod } else { Role::Pod };
    let mut netns = Netns::new(pod_label(&pod.name), role);
    match role {
        Role::RoutingPod => {
            netns.quiet_ipv6();
            netns.forward_packets();
        }
        _ => {
            netns.silence();
            netns.addresses_on_wire.clone_from(&pod.ips);
        }
    }
    let id = topology.add(netns);
    let prefix = match &cluster.proxy.detect_local {
        DetectLocal::InterfaceNamePrefix(prefix) => prefix.as_str(),
        _ => "veth",
    };
    let name = topology.interface_name(node, prefix, id);
    let (port, eth0) = topology.link((node, name), (id, "eth0"));
    let bridge = match scenario.cni.kind {
        CniKind::Ptp => None,
        CniKind::Bridge { hairpin, .. } => into_bridge(topology, node, port, mac_of(id, eth0), hairpin),
    };
    let carrier = bridge.unwrap_or(port);
    let gateway = mac_of(node, carrier);
    for &address in &pod.ips {
        let node_netns = &mut topology.namespaces[node];
        node_netns.neighbours.push(Neighbour { interface: carrier, address, mac: mac_of(id, eth0) });
        if bridge.is_none() || cluster.node(&pod.node).is_some_and(|node| is_outside_node_ranges(node, address)) {
            node_netns.routes.push(Route { destination: host_prefix(address), hop: Hop::Link(carrier) });
        }
    }
    if role == Role::RoutingPod {
        stack(&mut topology.namespaces[id], &pod.ips, eth0, gateway);
    }
    topology.owners.extend(pod.ips.iter().map(|ip| (*ip, id)));
    let netns = &mut topology.namespaces[id];
    netns.gateway = Some(gateway);
    if bridge.is_some() {
        netns.on_link = cluster.node(&pod.node).map(|node| node.pod_cidrs.clone()).unwrap_or_default();
    }
}

/// Makes the newest link of a node a port of its bridge, and returns the bridge's index.
fn into_bridge(topology: &mut Topology, node: NetnsId, port: u32, pod_mac: Mac, hairpin: bool) -> Option<u32> {
    let netns = &mut topology.namespaces[node];
    let bridge = netns.interfaces.iter().find(|interface| interface.kind == InterfaceKind::Bridge)?.index;
    let interface = netns.interfaces.last_mut()?;
    interface.bridge = Some(bridge);
    interface.hairpin = hairpin;
    netns.fdb.push(Fdb { interface: port, mac: pod_mac, remote: None });
    Some(bridge)
}

/// Gives pods with their own network stack their neighbours: the pods on the same bridge.
pub(super) fn add_routing_pod_neighbours(topology: &mut Topology) {
    for id in 0..topology.namespaces.len() {
        if topology.namespaces[id].role == Role::RoutingPod {
            neighbours_on_link(topology, id);
        }
    }
}

/// Gives a pod with its own network stack the neighbours on its link.
pub(super) fn neighbours_on_link(topology: &mut Topology, id: NetnsId) {
    let on_link = topology.namespaces[id].on_link.clone();
    let reachable = |ip: &IpAddr| on_link.iter().any(|net| net.contains(ip));
    let mut neighbours: Vec<(IpAddr, NetnsId)> =
        topology.owners.iter().map(|(ip, owner)| (*ip, *owner)).filter(|(ip, _)| reachable(ip)).collect();
    neighbours.sort_unstable();
    for (address, owner) in neighbours.into_iter().filter(|(_, owner)| *owner != id) {
        let netns = &mut topology.namespaces[id];
        netns.routes.push(Route { destination: host_prefix(address), hop: Hop::Link(ETH0) });
        netns.neighbours.push(Neighbour { interface: ETH0, address, mac: mac_of(owner, ETH0) });
    }
}

/// Adds the addresses, the default route and the gateway of a pod or outside host with a network stack.
pub(super) fn stack(netns: &mut Netns, ips: &[IpAddr], eth0: u32, gateway: Mac) {
    for &address in ips {
        netns.addresses.push((eth0, host_prefix(address)));
        let via = router(Family::of(address));
        netns.neighbours.push(Neighbour { interface: eth0, address: via, mac: gateway });
        netns.routes.push(Route { destination: Family::of(address).everything(), hop: Hop::Gateway(via, eth0) });
    }
}
