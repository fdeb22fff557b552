//! Tests of each clause in one small cluster, which each case changes as needed.

mod addresses;
mod endpoints;
mod policies;
mod questions;
mod releases;
mod sources;

use std::net::{IpAddr, SocketAddr};

use super::*;
use crate::cluster::{
    Endpoint, EndpointPort, ExternalTrafficPolicy, InternalTrafficPolicy, IpMode, LoadBalancerIngress, Pod, Protocol,
    Service, ServicePort, ServiceType,
};

/// Three nodes in three zones. On `a` the pods `client` and `web-a`, on `b` the pod `web-b`, on `c` the pod `other`; the
/// service `web` has every kind of address.
fn cluster() -> Cluster {
    let mut cluster = Cluster {
        nodes: vec![node("a", 1), node("b", 2), node("c", 3)],
        pods: vec![pod("client", "a", 1, 2), pod("web-a", "a", 1, 3), pod("web-b", "b", 2, 3), pod("other", "c", 3, 2)],
        services: vec![web()],
        ..Cluster::default()
    };
    cluster.proxy.version = "1.34".to_owned();
    cluster.proxy.cluster_cidrs = vec!["10.244.0.0/16".parse().unwrap(), "fd00:244::/32".parse().unwrap()];
    cluster.slices = vec![
        slice("four", Family::Ipv4, &["10.244.1.3", "10.244.2.3"]),
        slice("six", Family::Ipv6, &["fd00:244:1::3", "fd00:244:2::3"]),
    ];
    cluster
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn node(name: &str, number: u8) -> Node {
    Node {
        name: name.to_owned(),
        labels: [("topology.kubernetes.io/zone".to_owned(), format!("zone-{name}"))].into(),
        internal_ips: vec![ip(&format!("172.18.0.{number}")), ip(&format!("fd00:172::{number}"))],
        external_ips: vec![ip(&format!("198.51.100.{number}"))],
        pod_cidrs: vec![
            format!("10.244.{number}.0/24").parse().unwrap(),
            format!("fd00:244:{number}::/48").parse().unwrap(),
        ],
        hostname_override: None,
        release: None,
    }
}

fn pod(name: &str, node: &str, number: u8, last: u8) -> Pod {
    Pod {
        name: ObjectName::new("default", name),
        node: node.to_owned(),
        ips: vec![ip(&format!("10.244.{number}.{last}")), ip(&format!("fd00:244:{number}::{last}"))],
        host_network: false,
        labels: [].into(),
        ports: Vec::new(),
    }
}

fn web() -> Service {
    Service {
        name: ObjectName::new("default", "web"),
        labels: [].into(),
        annotations: [].into(),
        kind: ServiceType::LoadBalancer,
        cluster_ips: vec![ip("10.96.0.80"), ip("fd00:96::80")],
        headless: false,
        families: vec![Family::Ipv4, Family::Ipv6],
        ports: vec![ServicePort {
            name: "http".to_owned(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: Some(30080),
            target_port: None,
        }],
        selector: [].into(),
        external_ips: vec![ip("203.0.113.81")],
        load_balancer: vec![LoadBalancerIngress { ip: ip("203.0.113.80"), mode: IpMode::Vip }],
        source_ranges: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        internal_traffic_policy: InternalTrafficPolicy::Cluster,
        affinity_seconds: None,
        health_check_node_port: None,
        publish_not_ready_addresses: false,
        traffic_distribution: None,
    }
}

/// Returns a slice of endpoints, on the nodes of their addresses.
fn slice(name: &str, family: Family, addresses: &[&str]) -> EndpointSlice {
    EndpointSlice {
        name: ObjectName::new("default", name),
        service: ObjectName::new("default", "web"),
        family,
        ports: vec![EndpointPort { name: "http".to_owned(), protocol: Protocol::Tcp, port: Some(8080) }],
        endpoints: addresses.iter().map(|address| endpoint(address)).collect(),
    }
}

fn endpoint(address: &str) -> Endpoint {
    let address = ip(address);
    let on = |node: &&Node| node.pod_cidrs.iter().any(|range| range.contains(&address));
    let nodes = [node("a", 1), node("b", 2), node("c", 3)];
    Endpoint {
        addresses: vec![address],
        ready: true,
        serving: Some(true),
        terminating: false,
        node: nodes.iter().find(on).map(|node| node.name.clone()),
        zone: None,
        zone_hints: None,
        node_hints: None,
        pod: None,
    }
}

/// Parses a client (`pod client`, `node a`, `localhost a`, `203.0.113.9 via a`) and returns the promise.
fn ask(cluster: &Cluster, from: &str, to: &str) -> Promise {
    let (from, via) = from.split_once(" via ").map_or((from, None), |(from, via)| (from, Some(via.to_owned())));
    let from = match from.split_once(' ') {
        Some(("pod", name)) => VantagePoint::Pod(ObjectName::new("default", name)),
        Some(("node", name)) => VantagePoint::Node(name.to_owned()),
        Some(("localhost", name)) => VantagePoint::Localhost(name.to_owned()),
        _ => VantagePoint::Outside(ip(from)),
    };
    let (to, protocol) = to.split_once('/').unwrap_or((to, "tcp"));
    let to: SocketAddr = to.parse().unwrap();
    promise(cluster, &Question { from, to, protocol: protocol.parse().unwrap(), via }).unwrap()
}

/// `web-a 1/2 kept, web-b 1/2 node a`, or another outcome in one word.
fn brief(cluster: &Cluster, promise: &Promise) -> String {
    let endpoints = match &promise.outcome {
        PromisedOutcome::Delivered { endpoints, .. } => endpoints,
        PromisedOutcome::NotAService(Owner::Node(node)) => return format!("own node {node}"),
        PromisedOutcome::NotAService(Owner::Pod(name, source)) => {
            return format!("own pod {} {}", name.name, brief_source(source));
        }
        PromisedOutcome::NotAService(Owner::Outside) => return "unrouted".to_owned(),
        PromisedOutcome::Rejected(_) => return "rejected".to_owned(),
        PromisedOutcome::Dropped => return "dropped".to_owned(),
        PromisedOutcome::Fails => return "rejected".to_owned(),
        PromisedOutcome::NotPromised => return "not promised".to_owned(),
    };
    let one = |endpoint: &PromisedEndpoint| {
        let pod = cluster.pods.iter().find(|pod| pod.ips.contains(&endpoint.address.ip()));
        let name = pod.map_or_else(|| endpoint.address.to_string(), |pod| pod.name.name.clone());
        let reply = match endpoint.reply {
            Reply::FromDestination => "",
            Reply::BypassesNode => " past",
            Reply::Unspecified => " maybe",
        };
        format!("{name} {} {}{reply}", endpoint.share, brief_source(&endpoint.source))
    };
    endpoints.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn brief_source(source: &Source) -> String {
    match source {
        Source::Preserved => "kept".to_owned(),
        Source::Node(node) => format!("node {node}"),
        Source::PreservedOrNode(node) => format!("kept or node {node}"),
    }
}

type Change = fn(&mut Cluster);

fn answer(change: Change, from: &str, to: &str) -> String {
    let mut cluster = cluster();
    change(&mut cluster);
    let promise = ask(&cluster, from, to);
    brief(&cluster, &promise)
}

const OUTSIDE: &str = "192.0.2.9 via c";
const OUTSIDE_AT_A: &str = "192.0.2.9 via a";
const AS_IT_IS: Change = |_| {};

const EXTERNAL_LOCAL: Change = |cluster| cluster.services[0].external_traffic_policy = ExternalTrafficPolicy::Local;
const INTERNAL_LOCAL: Change = |cluster| cluster.services[0].internal_traffic_policy = InternalTrafficPolicy::Local;
