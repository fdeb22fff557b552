//! The plans of small scenarios.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rstest::rstest;
use svclab_rules::cluster::{
    Cluster, Endpoint, EndpointSlice, ExternalTrafficPolicy, Family, InternalTrafficPolicy, IpMode,
    LoadBalancerIngress, Node, ObjectName, Pod, Service, ServiceType,
};
use svclab_rules::iptables::RuleSet;

use super::*;
use crate::scenario::{Change, Cni, CniKind, Install, OtherRules, Overlay, Setting, Span, Step};

/// The interface that packets leave through.
fn interface_of(hop: Hop) -> Option<u32> {
    match hop {
        Hop::Gateway(_, interface) | Hop::Link(interface) => Some(interface),
        Hop::Nowhere => None,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two nodes with a pod each, and an outside host.
fn scenario(kind: CniKind, overlay: Overlay) -> Scenario {
    let node = |name: &str, number: u8| Node {
        name: name.to_owned(),
        internal_ips: vec![ip(&format!("172.18.0.{number}")), ip(&format!("fd00:18::{number}"))],
        pod_cidrs: vec![
            format!("10.244.{number}.0/24").parse().expect("a range"),
            format!("fd00:244:{number}::/64").parse().expect("a range"),
        ],
        ..Node::default()
    };
    let pod = |name: &str, node: &str, address: &str| Pod {
        name: ObjectName::new("default", name),
        node: node.to_owned(),
        ips: vec![ip(address)],
        host_network: false,
        labels: BTreeMap::new(),
        ports: Vec::new(),
    };
    let cluster = Cluster {
        nodes: vec![node("a", 2), node("b", 3)],
        pods: vec![
            pod("client", "a", "10.244.2.5"),
            pod("sibling", "a", "10.244.2.6"),
            pod("server", "b", "10.244.3.5"),
        ],
        ..Cluster::default()
    };
    Scenario {
        name: "a plan".to_owned(),
        file: "plan.yaml".into(),
        cluster,
        cni: Cni { kind, overlay },
        hosts: vec![Host { name: "outside".to_owned(), ips: vec![ip("203.0.113.10")] }],
        inputs: BTreeMap::new(),
        releases: crate::scenario::Releases::All,
        programs: BTreeMap::new(),
        sysctls: BTreeMap::new(),
        rules: Vec::new(),
        connections: Vec::new(),
        tests: Vec::new(),
        ignored_rules: Vec::new(),
        sets_mode: false,
        notes: Vec::new(),
    }
}

fn service(external_traffic_policy: ExternalTrafficPolicy) -> Service {
    Service {
        name: ObjectName::new("default", "web"),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        kind: ServiceType::LoadBalancer,
        cluster_ips: vec![ip("10.96.0.1")],
        headless: false,
        families: Vec::new(),
        ports: Vec::new(),
        selector: BTreeMap::new(),
        external_ips: Vec::new(),
        load_balancer: vec![LoadBalancerIngress { ip: ip("198.51.100.1"), mode: IpMode::Vip }],
        source_ranges: Vec::new(),
        external_traffic_policy,
        internal_traffic_policy: InternalTrafficPolicy::Cluster,
        affinity_seconds: None,
        health_check_node_port: None,
        publish_not_ready_addresses: false,
        traffic_distribution: None,
    }
}

fn endpoint_on(node: &str) -> EndpointSlice {
    let endpoint = Endpoint {
        addresses: vec![ip("10.244.3.5")],
        ready: true,
        serving: Some(true),
        terminating: false,
        node: Some(node.to_owned()),
        zone: None,
        zone_hints: None,
        node_hints: None,
        pod: None,
    };
    EndpointSlice {
        name: ObjectName::new("default", "web-1"),
        service: ObjectName::new("default", "web"),
        family: Family::Ipv4,
        ports: Vec::new(),
        endpoints: vec![endpoint],
    }
}

fn netns<'a>(topology: &'a Topology, name: &str) -> &'a Netns {
    &topology.namespaces[topology.find(name).expect("the namespace is planned")]
}

/// Checks that both ends of every link refer to each other, and that indices are unique in their namespace.
fn assert_consistent(topology: &Topology) {
    for (id, netns) in topology.namespaces.iter().enumerate() {
        let mut indices: Vec<u32> = netns.interfaces.iter().map(|interface| interface.index).collect();
        indices.dedup();
        assert_eq!(indices.len(), netns.interfaces.len(), "indices of {}", netns.name);
        for interface in &netns.interfaces {
            if let InterfaceKind::VethOwner(end) | InterfaceKind::VethPeer(end) = &interface.kind {
                assert_eq!(topology.behind(end.netns, end.index), Some(id), "{} of {}", interface.name, netns.name);
            }
        }
        let known = |index: u32| index == 1 || netns.interface(index).is_some();
        assert!(netns.routes().all(|route| interface_of(route.hop).is_none_or(known)), "routes of {}", netns.name);
        assert!(netns.neighbours().all(|neighbour| known(neighbour.interface)), "neighbours of {}", netns.name);
        assert!(netns.fdb().all(|entry| known(entry.interface)), "forwarding entries of {}", netns.name);
    }
}

#[rstest]
fn every_machine_has_a_namespace(
    #[values(CniKind::Ptp, CniKind::Bridge { hairpin: true, nf_call_iptables: true })] kind: CniKind,
    #[values(Overlay::None, Overlay::Vxlan)] overlay: Overlay,
) {
    let topology = plan(&scenario(kind, overlay));
    let names: Vec<&str> = topology.namespaces.iter().map(|netns| netns.name.as_str()).collect();
    assert_eq!(names, ["underlay", "node/a", "node/b", "pod/client", "pod/sibling", "pod/server", "host/outside"]);
    assert_consistent(&topology);
}

#[test]
fn a_ptp_pod_has_a_host_route_and_no_address() {
    let topology = plan(&scenario(CniKind::Ptp, Overlay::None));
    let (node, pod) = (netns(&topology, "node/a"), netns(&topology, "pod/client"));
    let route = node.routes().find(|route| route.destination == IpNet::from(ip("10.244.2.5"))).expect("a route");
    assert_eq!(interface_of(route.hop).and_then(|index| topology.behind(1, index)), topology.find("pod/client"));
    assert!(pod.addresses.is_empty());
    assert_eq!(pod.addresses_on_wire, [ip("10.244.2.5")]);
}

#[test]
fn nodes_reach_each_others_pods_through_the_node() {
    let topology = plan(&scenario(CniKind::Ptp, Overlay::None));
    let routes = || netns(&topology, "node/a").routes();
    let to_b = routes().find(|route| route.destination.to_string() == "10.244.3.0/24").expect("a route");
    assert_eq!(to_b.hop.gateway(), Some(ip("172.18.0.3")));
    let to_b = routes().find(|route| route.destination.to_string() == "fd00:244:3::/64").expect("a route");
    assert_eq!(to_b.hop.gateway(), Some(ip("fd00:18::3")));
}

#[test]
fn a_tunnel_leads_to_the_node_that_has_the_range() {
    let topology = plan(&scenario(CniKind::Ptp, Overlay::Vxlan));
    let node = netns(&topology, "node/a");
    let device = node.interfaces.iter().find(|interface| interface.name == "flannel.1").expect("a device");
    let route = node.routes().find(|route| route.destination.to_string() == "10.244.3.0/24").expect("a route");
    assert_eq!(interface_of(route.hop), Some(device.index));
    let gateway =
        node.neighbours().find(|neighbour| Some(neighbour.address) == route.hop.gateway()).expect("a gateway");
    let entry = node.fdb().find(|entry| entry.mac == gateway.mac).expect("a forwarding entry");
    assert_eq!(entry.remote, Some(ip("172.18.0.3")));
}

#[test]
fn pods_on_a_bridge_meet_directly_and_others_through_the_node() {
    let topology = plan(&scenario(CniKind::Bridge { hairpin: false, nf_call_iptables: true }, Overlay::None));
    let find = |name| topology.find(name).expect("planned");
    let (client, sibling) = (find("pod/client"), find("pod/sibling"));
    assert_eq!(topology.next_hop(client, ip("10.244.2.6")), Some(mac_of(sibling, ETH0)));
    let node = netns(&topology, "node/a");
    let bridge = node.interfaces.iter().find(|interface| interface.name == "cni0").expect("a bridge");
    assert_eq!(topology.next_hop(client, ip("10.244.3.5")), Some(bridge.mac));
    assert_eq!(topology.next_hop(client, ip("10.96.0.1")), Some(bridge.mac));
    assert!(node.addresses.contains(&(bridge.index, "10.244.2.1/24".parse().expect("a prefix"))));
}

#[rstest]
#[case::first_node(ExternalTrafficPolicy::Cluster, "a")]
#[case::node_with_an_endpoint(ExternalTrafficPolicy::Local, "b")]
fn a_load_balancer_address_leads_to(#[case] policy: ExternalTrafficPolicy, #[case] node: &str) {
    let mut scenario = scenario(CniKind::Ptp, Overlay::None);
    scenario.cluster.services.push(service(policy));
    scenario.cluster.slices.push(endpoint_on("b"));
    let topology = plan(&scenario);
    assert_eq!(entry(&topology), Some(node));
}

/// The node that packets to the load balancer's address are routed to.
fn entry(topology: &Topology) -> Option<&str> {
    topology.entry_node(ip("198.51.100.1")).and_then(Netns::node_name)
}

#[test]
fn the_way_to_a_load_balancer_follows_the_cluster() {
    let mut scenario = scenario(CniKind::Ptp, Overlay::None);
    let before = scenario.cluster.clone();
    scenario.cluster.services.push(service(ExternalTrafficPolicy::Local));
    scenario.cluster.slices.push(endpoint_on("b"));
    let mut moved = scenario.cluster.clone();
    moved.slices = vec![endpoint_on("a")];
    let at = |state: &Cluster| plan_at(&scenario, state);
    assert_eq!(entry(&at(&before)), None);
    assert_eq!(entry(&at(&scenario.cluster)), Some("b"));
    assert_eq!(entry(&at(&moved)), Some("a"));
}

#[test]
fn states_differ_in_routes_alone() {
    let mut scenario = scenario(CniKind::Bridge { hairpin: true, nf_call_iptables: true }, Overlay::Vxlan);
    let mut later = scenario.cluster.clone();
    later.pods[0].name.name = "newcomer".to_owned();
    later.services.push(service(ExternalTrafficPolicy::Cluster));
    let span = Span { file: "plan.yaml".into(), line: 1, column: 1 };
    let steps = vec![Step::Change(Change::State(Box::new(later.clone())))];
    scenario.tests.push(crate::scenario::Test { name: "changes".to_owned(), span, tags: Default::default(), steps });
    let (mut before, mut after) = (plan(&scenario), plan_at(&scenario, &later));
    assert_ne!(before, after);
    for netns in before.namespaces.iter_mut().chain(&mut after.namespaces) {
        netns.routes.clear();
    }
    assert_eq!(before, after);
}

#[test]
fn ipv6_is_had_only_where_a_machine_has_it() {
    let mut scenario = scenario(CniKind::Ptp, Overlay::None);
    assert!(plan(&scenario).has_ipv6());
    for node in &mut scenario.cluster.nodes {
        node.internal_ips.truncate(1);
        node.pod_cidrs.truncate(1);
    }
    assert!(!plan(&scenario).has_ipv6());
    scenario.hosts[0].ips.push(ip("2001:db8::10"));
    assert!(plan(&scenario).has_ipv6());
}

#[test]
fn settings_of_interfaces_are_known() {
    let mut scenario = scenario(CniKind::Bridge { hairpin: true, nf_call_iptables: true }, Overlay::Vxlan);
    let names = ["ipv4.conf.eth0.rp_filter", "ipv6.conf.flannel/1.mtu", "ipv4.conf.all.rp_filter", "ipv4.ip_forward"];
    let span = Span { file: "plan.yaml".into(), line: 1, column: 1 };
    let setting = Setting { value: "1".to_owned(), span };
    let settings = names.iter().map(|name| (format!("net.{name}"), setting.clone()));
    scenario.sysctls.insert("a".to_owned(), settings.collect());
    let topology = plan(&scenario);
    let node = netns(&topology, "node/a");
    let of_interfaces: Vec<&str> =
        node.sysctls.iter().filter(|one| node.is_about_interface(one)).map(|one| one.name.as_str()).collect();
    assert_eq!(of_interfaces, names[..2]);
}

#[test]
fn a_pod_with_rules_has_a_stack() {
    let mut scenario = scenario(CniKind::Ptp, Overlay::None);
    scenario.rules.push(OtherRules {
        rules: Arc::new(RuleSet::new(Family::Ipv4).into()),
        place: Place::Pod(ObjectName::new("default", "client")),
        family: Family::Ipv4,
        origin: Span { file: "plan.yaml".into(), line: 1, column: 1 },
        install: Install::Instead,
    });
    let topology = plan(&scenario);
    let pod = netns(&topology, "pod/client");
    assert_eq!(pod.role, Role::RoutingPod);
    assert_eq!(pod.addresses, [(ETH0, IpNet::from(ip("10.244.2.5")))]);
    assert!(pod.sysctls.iter().any(|sysctl| sysctl.name == "ipv4.ip_forward" && sysctl.value == "1"));
}

#[test]
fn pods_of_later_steps_are_planned_at_once() {
    let mut scenario = scenario(CniKind::Ptp, Overlay::None);
    let mut later = scenario.cluster.clone();
    later.pods[0].name.name = "newcomer".to_owned();
    let span = Span { file: "plan.yaml".into(), line: 1, column: 1 };
    let steps = vec![Step::Change(Change::State(Box::new(later)))];
    scenario.tests.push(crate::scenario::Test { name: "grows".to_owned(), span, tags: Default::default(), steps });
    assert!(plan(&scenario).find("pod/newcomer").is_some());
}

/// Each deviation is named with its machines, and the network without all of them has none.
#[test]
fn deviations_are_named_and_removed() {
    let mut scenario = scenario(CniKind::Bridge { hairpin: false, nf_call_iptables: false }, Overlay::None);
    let setting = Setting { value: "0".to_owned(), span: Span::start_of(Path::new("x")) };
    scenario.sysctls.insert("b".to_owned(), BTreeMap::from([("net.ipv4.ip_forward".to_owned(), setting)]));
    let topology = plan(&scenario);
    let words: Vec<String> =
        topology.deviations().iter().map(|deviation| topology.words_of_deviation(deviation)).collect();
    let expected = [
        "net.ipv4.ip_forward = 0 on node/b",
        "net.bridge.bridge-nf-call-iptables = 0 on node/a, node/b",
        "net.bridge.bridge-nf-call-ip6tables = 0 on node/a, node/b",
        "no hairpin mode of bridge ports on node/a, node/b",
    ];
    assert_eq!(words, expected);
    assert_eq!(topology.without_deviations(&topology.deviations()).deviations(), []);
}
