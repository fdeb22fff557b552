//! Where the promise changes from one packet to another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node, Service};
use svclab_rules::walk::{Field, Intervals, Narrowing, Packet, address_bits};

/// Sorted numbers as ranges of one.
type Keys = Vec<(u128, u128)>;

/// The ports of services by protocol, each with the services that have it, by their position.
#[derive(Debug, Default)]
struct Ports(BTreeMap<u8, BTreeMap<u16, Vec<usize>>>);

/// The addresses, ports and ranges that a promise may ask for.
#[derive(Default)]
pub(super) struct Boundaries {
    /// Addresses of services and machines, of each family.
    addresses: [Keys; 2],
    /// Ranges that an address may be of: pods', services', loopback.
    ranges: [Vec<Intervals>; 2],
    services: HashMap<IpAddr, Ports>,
    node_ports: Ports,
    nodes: HashSet<IpAddr>,
    /// What is asked of the client of each service.
    clients: Vec<Clients>,
}

/// What a promise asks of the source of a service's client.
#[derive(Debug, Default)]
struct Clients {
    endpoints: Keys,
    ranges: Vec<Intervals>,
}

impl Boundaries {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        let nodes: HashSet<IpAddr> = cluster.nodes.iter().flat_map(Node::addresses).chain(loopback).collect();
        let pods = cluster.pods.iter().flat_map(|pod| pod.ips.iter().copied());
        let mut services: HashMap<IpAddr, Ports> = HashMap::new();
        let mut node_ports = Ports::default();
        for (number, service) in cluster.services.iter().enumerate() {
            for port in &service.ports {
                let protocol = port.protocol.number();
                for address in frontends(service) {
                    services.entry(address).or_default().add(protocol, port.port, number);
                }
                port.node_port.into_iter().for_each(|own| node_ports.add(protocol, own, number));
            }
        }
        let all: Vec<IpAddr> = nodes.iter().copied().chain(pods).chain(services.keys().copied()).collect();
        let addresses = Family::ALL.map(|family| {
            keys(all.iter().filter(|address| Family::of(**address) == family).map(|address| address_bits(*address)))
        });
        let pod_ranges = cluster.nodes.iter().flat_map(|node| &node.pod_cidrs);
        let own = pod_ranges.chain(&cluster.service_cidrs).chain(&cluster.proxy.cluster_cidrs);
        let own: Vec<IpNet> = own.copied().chain(["127.0.0.0/8"].iter().filter_map(|text| text.parse().ok())).collect();
        let ranges = Family::ALL.map(|family| ranges_of(&own, family));
        let clients = cluster.services.iter().map(|service| Clients::of(cluster, service)).collect();
        Self { addresses, ranges, services, node_ports, nodes, clients }
    }

    /// Leaves the packets of a set of which the promise is another than of this one.
    pub(super) fn narrow(&self, packet: &Packet, narrowing: &Narrowing) {
        let (family, to) = (packet.family(), packet.destination);
        let value = address_bits(to);
        narrowing.look_up(Field::Destination, value, &self.addresses[family as usize]);
        for range in &self.ranges[family as usize] {
            narrowing.ask(Field::Destination, value, range);
            narrowing.ask(Field::Source, address_bits(packet.source), range);
        }
        let mut claimed: Vec<usize> = Vec::new();
        let own = self.services.get(&to);
        let of_node = self.nodes.contains(&to).then_some(&self.node_ports);
        for ports in own.into_iter().chain(of_node) {
            claimed.extend(ports.narrow(packet, narrowing));
        }
        for service in claimed {
            self.clients[service].narrow(packet, narrowing);
        }
    }
}

impl Ports {
    fn add(&mut self, protocol: u8, port: u16, service: usize) {
        self.0.entry(protocol).or_default().entry(port).or_default().push(service);
    }

    /// The services of a packet's port.
    fn narrow(&self, packet: &Packet, narrowing: &Narrowing) -> Vec<usize> {
        let of_protocol = self.0.iter().find(|(protocol, _)| {
            let one = Intervals::one(u128::from(**protocol));
            narrowing.ask(Field::Protocol, Field::Protocol.of(packet), &one)
        });
        let Some((_, ports)) = of_protocol else { return Vec::new() };
        let port = Field::DestinationPort.of(packet);
        narrowing.look_up(Field::DestinationPort, port, &keys(ports.keys().map(|port| u128::from(*port))));
        u16::try_from(port).ok().and_then(|port| ports.get(&port)).cloned().unwrap_or_default()
    }
}

impl Clients {
    fn of(cluster: &Cluster, service: &Service) -> Self {
        let endpoints = cluster.slices_of(&service.name).flat_map(|slice| &slice.endpoints);
        let endpoints = endpoints.flat_map(|endpoint| &endpoint.addresses);
        let ranges = Family::ALL.into_iter().flat_map(|family| ranges_of(&service.source_ranges, family)).collect();
        Self { endpoints: keys(endpoints.map(|address| address_bits(*address))), ranges }
    }

    fn narrow(&self, packet: &Packet, narrowing: &Narrowing) {
        let source = address_bits(packet.source);
        narrowing.look_up(Field::Source, source, &self.endpoints);
        for range in &self.ranges {
            narrowing.ask(Field::Source, source, range);
        }
    }
}

fn frontends(service: &Service) -> impl Iterator<Item = IpAddr> {
    let balancers = service.load_balancer.iter().map(|ingress| ingress.ip);
    service.cluster_ips.iter().chain(&service.external_ips).copied().chain(balancers)
}

fn ranges_of(ranges: &[IpNet], family: Family) -> Vec<Intervals> {
    let own = ranges.iter().filter(|range| Family::of(range.addr()) == family);
    own.map(|range| Intervals::between(address_bits(range.network()), address_bits(range.broadcast()))).collect()
}

fn keys(numbers: impl Iterator<Item = u128>) -> Keys {
    let mut keys: Keys = numbers.map(|number| (number, number)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
