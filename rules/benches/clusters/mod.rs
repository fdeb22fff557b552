//! Large clusters.

use std::net::{IpAddr, Ipv4Addr};

use svclab_rules::cluster::{
    Cluster, Endpoint, EndpointPort, EndpointSlice, ExternalTrafficPolicy, Family, InternalTrafficPolicy, Node,
    ObjectName, Protocol, Service, ServicePort, ServiceType,
};

/// The number of endpoints of every service.
pub(crate) const ENDPOINTS: u32 = 5;

/// Creates ClusterIP services with five endpoints each, one slice per service, on two nodes.
pub(crate) fn cluster(services: u32) -> Cluster {
    let node = Node { name: "node-1".to_owned(), internal_ips: vec![address(0xac12_0002)], ..Node::default() };
    let mut cluster = Cluster { nodes: vec![node], ..Cluster::default() };
    cluster.proxy.cluster_cidrs = vec!["10.0.0.0/9".parse().unwrap()];
    cluster.services = (0..services).map(service).collect();
    cluster.slices = (0..services).map(slice).collect();
    cluster
}

/// Returns the cluster IP of a service.
pub(crate) fn cluster_ip(number: u32) -> IpAddr {
    address(0x0a80_0000 + number)
}

fn address(bits: u32) -> IpAddr {
    Ipv4Addr::from_bits(bits).into()
}

fn name(number: u32) -> ObjectName {
    ObjectName::new(format!("team-{}", number % 100), format!("service-{number}"))
}

fn service(number: u32) -> Service {
    let port =
        ServicePort { name: "http".to_owned(), protocol: Protocol::Tcp, port: 80, node_port: None, target_port: None };
    Service {
        name: name(number),
        labels: Default::default(),
        annotations: Default::default(),
        kind: ServiceType::ClusterIp,
        cluster_ips: vec![cluster_ip(number)],
        headless: false,
        families: vec![Family::Ipv4],
        ports: vec![port],
        selector: Default::default(),
        external_ips: Vec::new(),
        load_balancer: Vec::new(),
        source_ranges: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        internal_traffic_policy: InternalTrafficPolicy::Cluster,
        affinity_seconds: None,
        health_check_node_port: None,
        publish_not_ready_addresses: false,
        traffic_distribution: None,
    }
}

fn slice(number: u32) -> EndpointSlice {
    let service = name(number);
    let endpoint = |index: u32| Endpoint {
        addresses: vec![address(0x0a00_0000 + number * ENDPOINTS + index)],
        ready: true,
        serving: Some(true),
        terminating: false,
        node: Some(format!("node-{}", index % 2)),
        zone: None,
        zone_hints: None,
        node_hints: None,
        pod: None,
    };
    EndpointSlice {
        name: ObjectName::new(&service.namespace, format!("{}-abcde", service.name)),
        family: Family::Ipv4,
        ports: vec![EndpointPort { name: "http".to_owned(), protocol: Protocol::Tcp, port: Some(8080) }],
        endpoints: (0..ENDPOINTS).map(endpoint).collect(),
        service,
    }
}
