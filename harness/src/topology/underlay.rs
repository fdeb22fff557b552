//! The network between nodes and outside hosts: one bridge, which is also their router.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use svclab_rules::cluster::{Cluster, ExternalTrafficPolicy, Family, Node, Service};

use super::{
    Hop, Interface, InterfaceKind, Neighbour, Netns, NetnsId, Role, Route, Topology, UNDERLAY, host_prefix, mac_of,
};
use crate::scenario::Scenario;
use crate::wire::Mac;

/// The router's IPv4 address on the link, used only as a next hop.
pub(super) const ROUTER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));
/// The router's IPv6 address on the link.
pub(super) const ROUTER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
/// The source of the router's ICMP errors: the dummy address of RFC 7600.
const ROUTER_NAME_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 0, 8));
/// The source of its ICMPv6 errors, in the discard-only prefix of RFC 6666.
const ROUTER_NAME_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 8));
/// The index of `br0`.
const BRIDGE: u32 = 2;

/// The router's address of a family on the link.
pub(super) fn router(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => ROUTER_V4,
        Family::Ipv6 => ROUTER_V6,
    }
}

/// The source of the router's ICMP errors in a family.
fn router_name(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => ROUTER_NAME_V4,
        Family::Ipv6 => ROUTER_NAME_V6,
    }
}

/// The router's MAC address.
pub(super) fn router_mac() -> Mac {
    mac_of(UNDERLAY, BRIDGE)
}

/// Plans the underlay without any machine.
pub(super) fn plan(topology: &mut Topology) {
    let mut netns = Netns::new("underlay".to_owned(), Role::Underlay);
    netns.quiet_ipv6();
    netns.forward_packets();
    // No rule applies to packets on the network between nodes.
    netns.set("bridge.bridge-nf-call-iptables", 0);
    netns.set("bridge.bridge-nf-call-ip6tables", 0);
    netns.interfaces.push(Interface::new(UNDERLAY, BRIDGE, "br0".to_owned(), InterfaceKind::Bridge));
    topology.add(netns);
}

/// Makes the underlay a router between all machines: its addresses, and its routes to addresses that no machine has.
pub(super) fn route(topology: &mut Topology, scenario: &Scenario, cluster: &Cluster) {
    let mut families = vec![Family::Ipv4];
    if topology.has_ipv6() {
        families.push(Family::Ipv6);
    }
    let routed = routed_addresses(scenario, cluster);
    let netns = &mut topology.namespaces[UNDERLAY];
    for family in families {
        netns.addresses.push((BRIDGE, host_prefix(router_name(family))));
        // Unused addresses are blackholed: the kernel's "net unreachable" is rate-limited, so it would depend on earlier packets.
        netns.routes.push(Route { destination: family.everything(), hop: Hop::Nowhere });
    }
    for (address, node) in routed {
        if let Some(via) = node.internal_ip(Family::of(address)) {
            netns.routes.push(Route { destination: host_prefix(address), hop: Hop::Gateway(via, BRIDGE) });
        }
    }
}

/// Connects a machine to the bridge: adds its `eth0`, and the router's routes to its addresses.
///
/// Returns the index of its `eth0`.
pub(super) fn plug_in(topology: &mut Topology, netns: NetnsId, addresses: &[IpAddr]) -> u32 {
    let port_name = topology.interface_name(UNDERLAY, "to", netns);
    let (port, eth0) = topology.link((UNDERLAY, port_name), (netns, "eth0"));
    let mac = mac_of(netns, eth0);
    let underlay = &mut topology.namespaces[UNDERLAY];
    if let Some(interface) = underlay.interfaces.last_mut() {
        interface.bridge = Some(BRIDGE);
    }
    underlay.fdb.push(super::Fdb { interface: port, mac, remote: None });
    for &address in addresses {
        underlay.routes.push(Route { destination: host_prefix(address), hop: Hop::Link(BRIDGE) });
        underlay.neighbours.push(Neighbour { interface: BRIDGE, address, mac });
    }
    eth0
}

/// Service addresses that the network routes to a node, with that node.
fn routed_addresses<'a>(scenario: &Scenario, cluster: &'a Cluster) -> Vec<(IpAddr, &'a Node)> {
    let owned = |ip: &IpAddr| {
        cluster.nodes.iter().any(|node| node.addresses().any(|own| own == *ip))
            || scenario.hosts.iter().any(|host| host.ips.contains(ip))
    };
    let mut routed: Vec<(IpAddr, &Node)> = Vec::new();
    for service in &cluster.services {
        let Some(node) = entry_node(cluster, service) else { continue };
        let addresses = service.external_ips.iter().copied().chain(service.load_balancer.iter().map(|lb| lb.ip));
        for address in addresses.filter(|ip| !owned(ip)) {
            if !routed.iter().any(|(known, _)| *known == address) {
                routed.push((address, node));
            }
        }
    }
    routed
}

/// The node that a load balancer would choose: the first, or with the policy Local the first with an endpoint.
fn entry_node<'a>(cluster: &'a Cluster, service: &Service) -> Option<&'a Node> {
    let has_endpoint = |node: &&Node| {
        let mut endpoints = cluster.slices_of(&service.name).flat_map(|slice| &slice.endpoints);
        endpoints.any(|endpoint| endpoint.ready && endpoint.node.as_deref() == Some(&node.name))
    };
    let local = match service.external_traffic_policy {
        ExternalTrafficPolicy::Local => cluster.nodes.iter().find(has_endpoint),
        ExternalTrafficPolicy::Cluster => None,
    };
    local.or(cluster.nodes.first())
}
