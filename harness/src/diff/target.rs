//! What a packet is sent to.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, Family, Service};
use svclab_rules::walk::Packet;

/// The kind of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A port of a service at its cluster IP.
    ClusterIp,
    /// A port of a service at an external IP.
    ExternalIp,
    /// A port of a service at its load balancer's address.
    LoadBalancer,
    /// A node port at the first internal address of a node.
    NodePort,
    /// A node port at another address of a node.
    SecondaryNodePort,
    /// A node port at a loopback address.
    LoopbackNodePort,
    /// A port that the service of an address does not have.
    UnusedPort,
    /// A port of a node that no service has.
    Node,
    /// An address of no service and no node.
    Elsewhere,
    /// Any destination, from a loopback address.
    FromLoopback,
    /// Packets in the connection state INVALID.
    Invalid,
    /// Packets that a firewall of the node would drop.
    Firewall,
}

impl Target {
    /// A name for programs, which stays the same.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster-ip",
            Self::ExternalIp => "external-ip",
            Self::LoadBalancer => "load-balancer",
            Self::NodePort => "node-port",
            Self::SecondaryNodePort => "node-port-at-secondary-address",
            Self::LoopbackNodePort => "node-port-at-loopback",
            Self::UnusedPort => "unused-port",
            Self::Node => "node",
            Self::Elsewhere => "elsewhere",
            Self::FromLoopback => "from-loopback",
            Self::Invalid => "invalid-packets",
            Self::Firewall => "firewall",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "cluster IPs",
            Self::ExternalIp => "external IPs",
            Self::LoadBalancer => "load balancers' addresses",
            Self::NodePort => "node ports at the node's primary address",
            Self::SecondaryNodePort => "node ports at other addresses of the node",
            Self::LoopbackNodePort => "node ports at loopback addresses",
            Self::UnusedPort => "ports of service addresses that the service does not have",
            Self::Node => "nodes' addresses, ports of no service",
            Self::Elsewhere => "addresses of no service and no node",
            Self::FromLoopback => "packets from a loopback address to others",
            Self::Invalid => "packets in the connection state INVALID",
            Self::Firewall => "a firewall of the node that drops by default",
        })
    }
}

/// The services and nodes of both sides by their addresses and ports.
pub(super) struct Targets<'c> {
    services: HashMap<IpAddr, (Target, &'c Service)>,
    node_ports: HashMap<(u8, u16), &'c Service>,
    /// Whether the address is its node's first one.
    nodes: HashMap<IpAddr, bool>,
}

impl<'c> Targets<'c> {
    pub(super) fn of(clusters: [&'c Cluster; 2]) -> Self {
        let mut targets = Self { services: HashMap::new(), node_ports: HashMap::new(), nodes: HashMap::new() };
        for cluster in clusters {
            for node in &cluster.nodes {
                for address in node.addresses() {
                    let is_first = node.internal_ip(Family::of(address)) == Some(address);
                    targets.nodes.insert(address, is_first);
                }
            }
            for service in cluster.services.iter().filter(|service| service.skipped().is_none()) {
                let balancers = service.load_balancer.iter().map(|ingress| (ingress.ip, Target::LoadBalancer));
                let external = service.external_ips.iter().map(|ip| (*ip, Target::ExternalIp));
                let own = service.cluster_ips.iter().map(|ip| (*ip, Target::ClusterIp));
                targets.services.extend(own.chain(external).chain(balancers).map(|(ip, kind)| (ip, (kind, service))));
                let ports = service.ports.iter().filter_map(|port| Some((port.protocol.number(), port.node_port?)));
                targets.node_ports.extend(ports.map(|port| (port, service)));
            }
        }
        targets
    }

    /// The kind of a packet's destination, and the service that has it.
    pub(super) fn find(&self, packet: &Packet) -> (Target, Option<String>) {
        let protocol = packet.transport.protocol();
        let port = packet.transport.ports().map(|(_, port)| port);
        if let Some((kind, service)) = self.services.get(&packet.destination) {
            let has = |port: u16| service.ports.iter().any(|own| (own.protocol.number(), own.port) == (protocol, port));
            let kind = if port.is_some_and(has) { *kind } else { Target::UnusedPort };
            return (kind, Some(service.name.to_string()));
        }
        let node_port = || port.and_then(|port| self.node_ports.get(&(protocol, port)));
        let kind = match self.nodes.get(&packet.destination) {
            Some(true) => Target::NodePort,
            Some(false) => Target::SecondaryNodePort,
            None if packet.destination.is_loopback() => Target::LoopbackNodePort,
            None => return (Target::Elsewhere, None),
        };
        node_port().map_or((Target::Node, None), |service| (kind, Some(service.name.to_string())))
    }
}
