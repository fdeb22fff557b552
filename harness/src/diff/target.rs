//! The kind of a packet's destination.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, EndpointSlice, Family, ObjectName, Service};
use svclab_rules::walk::Packet;

use super::traits::{Trait, traits};

/// The kind of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A service port at the cluster IP.
    ClusterIp,
    /// A service port at an external IP.
    ExternalIp,
    /// A service port at the load balancer's address.
    LoadBalancer,
    /// A node port at the first internal address of a node.
    NodePort,
    /// A node port at another address of a node.
    SecondaryNodePort,
    /// A node port at a loopback address.
    LoopbackNodePort,
    /// A port that the service with that address does not have.
    UnusedPort,
    /// A port of a node that no service has.
    Node,
    /// An address that no service and no node has.
    Elsewhere,
    /// Any destination, if the source is a loopback address.
    FromLoopback,
    /// Packets in the connection state INVALID.
    Invalid,
    /// Connections that are open when the rules of one side replace those of the other.
    Established,
    /// Later connections of a client, to a service with session affinity.
    Returning,
}

impl Target {
    /// Returns the stable code for programs.
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
            Self::Established => "open-connections",
            Self::Returning => "session-affinity",
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
            Self::UnusedPort => "unused ports of Service addresses",
            Self::Node => "node addresses, ports that no Service uses",
            Self::Elsewhere => "addresses that no Service or node has",
            Self::FromLoopback => "packets from a loopback address to another address",
            Self::Invalid => "packets in the connection state INVALID",
            Self::Established => "connections that are open when the rules are replaced",
            Self::Returning => "later connections of a client, with session affinity",
        })
    }
}

/// A service that a packet is sent to.
pub(super) struct Claim {
    pub(super) service: Arc<str>,
    pub(super) traits: Arc<BTreeSet<Trait>>,
}

/// The services and nodes of both sides by their addresses and ports.
pub(super) struct Targets {
    claims: Vec<Claim>,
    services: HashMap<IpAddr, (Target, usize)>,
    /// The ports that services have at their addresses.
    ports: HashSet<(IpAddr, u8, u16)>,
    node_ports: HashMap<(u8, u16), usize>,
    /// Node addresses, each with whether it is the node's first one.
    nodes: HashMap<IpAddr, bool>,
}

impl Targets {
    pub(super) fn of(clusters: [&Cluster; 2]) -> Self {
        let mut targets = Self {
            claims: Vec::new(),
            services: HashMap::new(),
            ports: HashSet::new(),
            node_ports: HashMap::new(),
            nodes: HashMap::new(),
        };
        for cluster in clusters {
            targets.add_nodes(cluster);
            let mut slices: HashMap<&ObjectName, Vec<&EndpointSlice>> = HashMap::new();
            for slice in &cluster.slices {
                slices.entry(&slice.service).or_default().push(slice);
            }
            for service in cluster.services.iter().filter(|service| service.skipped().is_none()) {
                targets.add_service(service, slices.get(&service.name).map(Vec::as_slice).unwrap_or_default());
            }
        }
        targets
    }

    fn add_nodes(&mut self, cluster: &Cluster) {
        for node in &cluster.nodes {
            for address in node.addresses() {
                let is_first = node.internal_ip(Family::of(address)) == Some(address);
                self.nodes.insert(address, is_first);
            }
        }
    }

    fn add_service(&mut self, service: &Service, slices: &[&EndpointSlice]) {
        let at = self.claims.len();
        self.claims.push(Claim { service: service.name.to_string().into(), traits: Arc::new(traits(service, slices)) });
        let balancers = service.load_balancer.iter().map(|ingress| (ingress.ip, Target::LoadBalancer));
        let external = service.external_ips.iter().map(|ip| (*ip, Target::ExternalIp));
        let own = service.cluster_ips.iter().map(|ip| (*ip, Target::ClusterIp));
        for (address, kind) in own.chain(external).chain(balancers) {
            self.services.insert(address, (kind, at));
            self.ports.extend(service.ports.iter().map(|port| (address, port.protocol.number(), port.port)));
        }
        let ports = service.ports.iter().filter_map(|port| Some((port.protocol.number(), port.node_port?)));
        self.node_ports.extend(ports.map(|port| (port, at)));
    }

    /// Returns the kind of a packet's destination, and the service that has it.
    pub(super) fn find(&self, packet: &Packet) -> (Target, Option<&Claim>) {
        let (address, protocol) = (packet.destination, packet.transport.protocol());
        let port = packet.transport.ports().map(|(_, port)| port);
        let of_node = self.nodes.get(&address);
        if let Some((kind, at)) = self.services.get(&address) {
            let is_used = port.is_some_and(|port| self.ports.contains(&(address, protocol, port)));
            // A node's address may also be an external IP.
            if is_used || of_node.is_none() {
                return (if is_used { *kind } else { Target::UnusedPort }, Some(&self.claims[*at]));
            }
        }
        let kind = match of_node {
            Some(true) => Target::NodePort,
            Some(false) => Target::SecondaryNodePort,
            None if address.is_loopback() => Target::LoopbackNodePort,
            None => return (Target::Elsewhere, None),
        };
        let node_port = port.and_then(|port| self.node_ports.get(&(protocol, port)));
        node_port.map_or((Target::Node, None), |at| (kind, Some(&self.claims[*at])))
    }
}
