//! The list of questions for a cluster.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::address_lookup;
use super::question::{Question, VantagePoint};
use crate::cluster::{Cluster, Family, Node, Protocol};
use crate::profile::{Profile, UnknownVersion};

/// Returns a question for every vantage point and every service address: cluster IPs, external and load-balancer IPs, and node ports on
/// every address of every node; each port with its own protocol and with the other of TCP and UDP, and one unused port. Every address that
/// services have on all nodes is paired with an unused neighbouring address and the first port, because rules with a wrong mask serve it
/// too.
///
/// An outside host reaches addresses that are not a node's own through every node in turn. From a loopback address, only the node itself is
/// a destination; for IPv6, only `::1`. Families that a vantage point does not have are skipped. Questions are in the order of the
/// cluster's lists, without duplicates.
///
/// # Errors
///
/// The release of a kube-proxy in the cluster is unknown.
pub fn questions(cluster: &Cluster, vantage_points: &[VantagePoint]) -> Result<Vec<Question>, UnknownVersion> {
    let targets = Targets::of(cluster)?;
    let mut asked = HashSet::new();
    let mut questions = Vec::new();
    for from in vantage_points {
        let of_vantage = targets.from(cluster, from).into_iter();
        questions.extend(of_vantage.filter(|question| asked.insert(question.clone())));
    }
    Ok(questions)
}

/// A port with its protocol.
type Port = (u16, Protocol);

/// The destinations in a cluster.
struct Targets {
    /// Addresses that services have on every node, with the ports to try.
    services: Vec<(IpAddr, Vec<Port>)>,
    /// Node ports to try on nodes' addresses.
    node_ports: Vec<(Family, Vec<Port>)>,
}

impl Targets {
    fn of(cluster: &Cluster) -> Result<Self, UnknownVersion> {
        let releases: Vec<Profile> = cluster.releases().into_iter().map(str::parse).collect::<Result<_, _>>()?;
        let free = unused_ports(cluster);
        let mut services: Vec<(IpAddr, Vec<Port>)> = Vec::new();
        let mut places: HashMap<IpAddr, usize> = HashMap::new();
        for service in cluster.services.iter().filter(|service| address_lookup::is_proxied(service)) {
            let ports = to_ask(service.ports.iter().map(|port| (port.port, port.protocol)), free.service);
            let of_releases =
                releases.iter().flat_map(|profile| address_lookup::addresses(service, *profile, &cluster.proxy));
            for address in of_releases.map(|(address, _)| address) {
                let place = *places.entry(address).or_insert(services.len());
                if place == services.len() {
                    services.push((address, Vec::new()));
                }
                services[place].1.extend(&ports);
            }
        }
        let known: HashSet<IpAddr> = services.iter().map(|(address, _)| *address).chain(addresses(cluster)).collect();
        let beside: Vec<(IpAddr, Vec<Port>)> = services
            .iter()
            .map(|(address, ports)| (neighbour(*address), ports.first().copied().into_iter().collect()))
            .filter(|(address, _)| !known.contains(address))
            .collect();
        services.extend(beside);
        let node_ports = Family::ALL.map(|family| {
            let served =
                cluster.services.iter().filter(|service| address_lookup::is_proxied(service)).flat_map(|service| {
                    let ports = service.ports.iter();
                    ports.flat_map(|port| {
                        address_lookup::node_ports_of(service, port).map(|number| (number, port.protocol))
                    })
                });
            let of_family =
                served.filter(|((_, own), _)| *own == family).map(|((number, _), protocol)| (number, protocol));
            (family, to_ask(of_family, free.node))
        });
        Ok(Self { services, node_ports: node_ports.into() })
    }

    /// Returns the questions of one vantage point.
    fn from(&self, cluster: &Cluster, from: &VantagePoint) -> Vec<Question> {
        let families = families(cluster, from);
        let is_asked = |address: &IpAddr| families.contains(&Family::of(*address));
        let own_node = match from {
            VantagePoint::Localhost(name) => cluster.node(name),
            VantagePoint::Pod(_) | VantagePoint::Node(_) | VantagePoint::Outside(_) => None,
        };
        let ask = |address: IpAddr, (port, protocol): &Port, via: Option<&Node>| Question {
            from: from.clone(),
            to: SocketAddr::new(address, *port),
            protocol: *protocol,
            via: via.map(|node| node.name.clone()),
        };
        let mut questions = Vec::new();
        if own_node.is_none() {
            for (address, ports) in self.services.iter().filter(|(address, _)| is_asked(address)) {
                for via in entries(cluster, from, *address) {
                    questions.extend(ports.iter().map(|port| ask(*address, port, via)));
                }
            }
        }
        let nodes: Vec<&Node> = own_node.map_or_else(|| cluster.nodes.iter().collect(), |node| vec![node]);
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into_iter();
        let loopback = loopback.filter(|_| own_node.is_some());
        let own = nodes.iter().flat_map(|node| node.addresses());
        let addresses = own.filter(|address| own_node.is_none() || address.is_ipv4()).chain(loopback);
        for address in addresses.filter(is_asked) {
            let of_family = self.node_ports.iter().filter(|(family, _)| *family == Family::of(address));
            questions.extend(of_family.flat_map(|(_, ports)| ports).map(|port| ask(address, port, None)));
        }
        questions
    }
}

/// Returns the address families of a vantage point.
fn families(cluster: &Cluster, from: &VantagePoint) -> BTreeSet<Family> {
    let of_node =
        |name: &str| -> Vec<IpAddr> { cluster.node(name).map(|node| node.addresses().collect()).unwrap_or_default() };
    let addresses = match from {
        VantagePoint::Pod(name) => match cluster.pod(name) {
            Some(pod) if pod.host_network => of_node(&pod.node),
            Some(pod) => pod.ips.clone(),
            None => Vec::new(),
        },
        VantagePoint::Node(name) | VantagePoint::Localhost(name) => of_node(name),
        VantagePoint::Outside(address) => vec![*address],
    };
    addresses.into_iter().map(Family::of).collect()
}

/// Returns the nodes through which a vantage point reaches an address: every node for an outside host, unless the address is a node's own.
fn entries<'a>(cluster: &'a Cluster, from: &VantagePoint, address: IpAddr) -> Vec<Option<&'a Node>> {
    let is_node = cluster.nodes.iter().any(|node| node.addresses().any(|own| own == address));
    match from {
        VantagePoint::Outside(_) if !is_node => cluster.nodes.iter().map(Some).collect(),
        VantagePoint::Pod(_) | VantagePoint::Node(_) | VantagePoint::Localhost(_) | VantagePoint::Outside(_) => {
            vec![None]
        }
    }
}

/// Returns the ports to try if these are served: each with its own protocol and with the other of TCP and UDP, and a free one.
fn to_ask(served: impl Iterator<Item = Port>, free: u16) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for (number, protocol) in served {
        let other = if protocol == Protocol::Udp { Protocol::Tcp } else { Protocol::Udp };
        ports.extend([(number, protocol), (number, other)]);
    }
    ports.extend([(free, Protocol::Tcp), (free, Protocol::Udp)]);
    let mut known = HashSet::new();
    ports.retain(|port| known.insert(*port));
    ports
}

/// Returns the addresses of the machines in a cluster.
fn addresses(cluster: &Cluster) -> impl Iterator<Item = IpAddr> {
    let pods = cluster.pods.iter().flat_map(|pod| &pod.ips).copied();
    pods.chain(cluster.nodes.iter().flat_map(Node::addresses))
}

/// Returns the address with the last bit flipped.
fn neighbour(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ 1).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ 1).into(),
    }
}

/// Ports that nothing in the cluster uses.
struct UnusedPorts {
    /// A port below the range of node ports.
    service: u16,
    /// A port in the default range of node ports.
    node: u16,
}

fn unused_ports(cluster: &Cluster) -> UnusedPorts {
    let mut used: HashSet<u16> = HashSet::new();
    for port in cluster.services.iter().flat_map(|service| &service.ports) {
        used.extend([Some(port.port), port.node_port].into_iter().flatten());
    }
    used.extend(cluster.services.iter().filter_map(|service| service.health_check_node_port));
    used.extend(cluster.slices.iter().flat_map(|slice| &slice.ports).filter_map(|port| port.port));
    for port in cluster.pods.iter().flat_map(|pod| &pod.ports) {
        used.extend([Some(port.port), port.host_port].into_iter().flatten());
    }
    let free = |mut range: std::ops::RangeInclusive<u16>| range.rfind(|port| !used.contains(port)).unwrap_or(1);
    UnusedPorts { service: free(1024..=29999), node: free(30000..=32767) }
}
