//! The boundaries at which the promise changes between packets.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, EndpointSlice, Family, Node, ObjectName, Service};
use svclab_rules::walk::{Field, Intervals, Narrowing, Others, Packet, address_bits};

/// Sorted numbers, as ranges of length one.
type Keys = Vec<(u128, u128)>;

/// The ports of services, by protocol.
#[derive(Debug, Default)]
struct Ports(BTreeMap<u8, OfProtocol>);

/// Ports of one protocol.
#[derive(Debug, Default)]
struct OfProtocol {
    keys: Keys,
    /// The positions of the services that have a port.
    services: HashMap<u16, Vec<usize>>,
}

/// The addresses, ports and ranges that a promise may depend on.
///
/// Ports come before addresses: few ports belong to services, so packets to other ports are not split by the services' addresses.
#[derive(Default)]
pub(crate) struct Boundaries {
    /// The ports of services, and for each the addresses.
    ports: Ports,
    frontends: HashMap<(u8, u16), Frontends>,
    /// The addresses of nodes, by family.
    nodes: [Keys; 2],
    node_ports: Ports,
    /// Sets of addresses that a promise does not distinguish, by family: those of services by kind, those of pods by node, and ranges.
    sets: [Vec<Intervals>; 2],
    ranges: [Vec<Intervals>; 2],
    /// The conditions on the clients of each service.
    clients: Vec<Clients>,
}

/// The addresses of services on a port, by family.
#[derive(Debug, Default)]
struct Frontends {
    addresses: [Keys; 2],
    /// The positions of the services.
    services: HashMap<IpAddr, Vec<usize>>,
}

/// The conditions of a promise on the source of a service's client.
#[derive(Debug, Default)]
struct Clients {
    endpoints: Keys,
    ranges: Vec<Intervals>,
}

impl Boundaries {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut boundaries = Self::default();
        for (number, service) in cluster.services.iter().enumerate() {
            for port in &service.ports {
                let protocol = port.protocol.number();
                boundaries.ports.add(protocol, port.port, number);
                let own = boundaries.frontends.entry((protocol, port.port)).or_default();
                frontends(service).for_each(|address| own.services.entry(address).or_default().push(number));
                port.node_port.into_iter().for_each(|own| boundaries.node_ports.add(protocol, own, number));
            }
        }
        boundaries.frontends.values_mut().for_each(Frontends::sort);
        [&mut boundaries.ports, &mut boundaries.node_ports].into_iter().for_each(Ports::sort);
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        let nodes: Vec<IpAddr> = cluster.nodes.iter().flat_map(Node::addresses).chain(loopback).collect();
        boundaries.nodes = Family::ALL.map(|family| family_keys(&nodes, family));
        let sets = sets(cluster);
        boundaries.sets = Family::ALL.map(|family| {
            let own = sets.iter().map(|addresses| family_keys(addresses, family).into_iter().collect::<Intervals>());
            own.filter(|addresses| !addresses.is_empty()).collect()
        });
        let pod_ranges = cluster.nodes.iter().flat_map(|node| &node.pod_cidrs);
        let own = pod_ranges.chain(&cluster.service_cidrs).chain(&cluster.proxy.cluster_cidrs);
        let own: Vec<IpNet> = own.copied().chain(["127.0.0.0/8"].iter().filter_map(|text| text.parse().ok())).collect();
        boundaries.ranges = Family::ALL.map(|family| ranges_of(&own, family));
        let mut slices: HashMap<&ObjectName, Vec<&EndpointSlice>> = HashMap::new();
        cluster.slices.iter().for_each(|slice| slices.entry(&slice.service).or_default().push(slice));
        let clients = |service: &Service| Clients::of(service, slices.get(&service.name).map_or(&[], Vec::as_slice));
        boundaries.clients = cluster.services.iter().map(clients).collect();
        boundaries
    }

    /// Returns whether endpoints of the packet's services are among the sources of its set, with a source that is not an endpoint, if there
    /// is one.
    pub(crate) fn plain_source(&self, packet: &Packet, sources: &Intervals) -> Option<(u128, Others)> {
        let port = u16::try_from(Field::DestinationPort.of(packet)).ok()?;
        let protocol = packet.transport.protocol();
        let frontends = self.frontends.get(&(protocol, port)).and_then(|own| own.services.get(&packet.destination));
        let value = address_bits(packet.destination);
        let is_node = self.nodes[packet.family() as usize].binary_search(&(value, value)).is_ok();
        let node_ports = self.node_ports.0.get(&protocol).filter(|_| is_node).and_then(|own| own.services.get(&port));
        let mut claimed = frontends.into_iter().chain(node_ports).flatten();
        // If several services have the address, one is enough: rules distinguish the others.
        let endpoints = &self.clients[*claimed.next()?].endpoints;
        let source = address_bits(packet.source);
        let is_endpoint = |source: u128| endpoints.binary_search(&(source, source)).is_ok();
        if !is_endpoint(source) {
            return Some((source, Others::Left));
        }
        let plain = sources.without_ranges(endpoints).first();
        Some(plain.map_or((source, Others::Forked), |plain| (plain, Others::Left)))
    }

    /// Narrows a set to the packets with the same promise as this one.
    pub(crate) fn narrow(&self, packet: &Packet, narrowing: &Narrowing) {
        let (family, to) = (packet.family() as usize, packet.destination);
        let value = address_bits(to);
        let protocol = packet.transport.protocol();
        self.ports.narrow(packet, narrowing);
        let mut claimed: Vec<usize> = Vec::new();
        let port = u16::try_from(Field::DestinationPort.of(packet)).unwrap_or_default();
        if let Some(own) = self.frontends.get(&(protocol, port)) {
            narrowing.look_up(Field::Destination, value, &own.addresses[family]);
            claimed.extend(own.services.get(&to).into_iter().flatten());
        }
        narrowing.look_up(Field::Destination, value, &self.nodes[family]);
        if self.nodes[family].binary_search(&(value, value)).is_ok() {
            claimed.extend(self.node_ports.narrow(packet, narrowing));
        }
        for addresses in &self.sets[family] {
            narrowing.ask(Field::Destination, value, addresses);
        }
        for range in &self.ranges[family] {
            narrowing.ask(Field::Destination, value, range);
            narrowing.ask(Field::Source, address_bits(packet.source), range);
        }
        for service in claimed {
            self.clients[service].narrow(packet, narrowing);
        }
    }
}

impl Frontends {
    /// Builds the lookup keys of the addresses.
    fn sort(&mut self) {
        let all: Vec<IpAddr> = self.services.keys().copied().collect();
        self.addresses = Family::ALL.map(|family| family_keys(&all, family));
    }
}

/// Sets of addresses that a promise does not distinguish.
fn sets(cluster: &Cluster) -> Vec<Vec<IpAddr>> {
    let services = || cluster.services.iter();
    let balancers = services().flat_map(|service| service.load_balancer.iter().map(|ingress| ingress.ip));
    let mut sets = vec![
        services().flat_map(|service| service.cluster_ips.iter().copied()).collect(),
        services().flat_map(|service| service.external_ips.iter().copied()).collect(),
        balancers.collect(),
    ];
    let mut pods: BTreeMap<(&str, bool), Vec<IpAddr>> = BTreeMap::new();
    for pod in &cluster.pods {
        pods.entry((&pod.node, pod.host_network)).or_default().extend(&pod.ips);
    }
    sets.extend(pods.into_values());
    sets
}

fn family_keys(addresses: &[IpAddr], family: Family) -> Keys {
    keys(addresses.iter().filter(|address| Family::of(**address) == family).map(|address| address_bits(*address)))
}

impl Ports {
    fn add(&mut self, protocol: u8, port: u16, service: usize) {
        self.0.entry(protocol).or_default().services.entry(port).or_default().push(service);
    }

    /// Builds the lookup keys of what was added.
    fn sort(&mut self) {
        for own in self.0.values_mut() {
            own.keys = keys(own.services.keys().map(|port| u128::from(*port)));
        }
    }

    /// The services of a packet's port.
    fn narrow(&self, packet: &Packet, narrowing: &Narrowing) -> &[usize] {
        let of_protocol = self.0.iter().find(|(protocol, _)| {
            let one = Intervals::one(u128::from(**protocol));
            narrowing.ask(Field::Protocol, Field::Protocol.of(packet), &one)
        });
        let Some((_, own)) = of_protocol else { return &[] };
        let port = Field::DestinationPort.of(packet);
        narrowing.look_up(Field::DestinationPort, port, &own.keys);
        u16::try_from(port).ok().and_then(|port| own.services.get(&port)).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Clients {
    fn of(service: &Service, slices: &[&EndpointSlice]) -> Self {
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let endpoints = endpoints.flat_map(|endpoint| &endpoint.addresses);
        let ranges = Family::ALL.into_iter().flat_map(|family| ranges_of(&service.source_ranges, family)).collect();
        Self { endpoints: keys(endpoints.map(|address| address_bits(*address))), ranges }
    }

    fn narrow(&self, packet: &Packet, narrowing: &Narrowing) {
        let source = address_bits(packet.source);
        narrowing.look_up_own(source, &self.endpoints);
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
