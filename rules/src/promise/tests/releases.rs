//! Differences between releases.

use rstest::rstest;

use super::*;

#[rstest]
#[case::external_ips("1.18", ProxyMode::Iptables, "node c", "203.0.113.81:80", Some(KnownBug::ExternalIpsFromInside))]
#[case::external_ips_from_outside(
    "1.18",
    ProxyMode::Iptables,
    OUTSIDE,
    "203.0.113.81:80",
    Some(KnownBug::DropIsForwarded)
)]
#[case::internal_policy(
    "1.22",
    ProxyMode::Iptables,
    "pod client",
    "10.96.0.80:80",
    Some(KnownBug::InternalPolicyAffectsExternal)
)]
#[case::forwarded("1.24", ProxyMode::Iptables, OUTSIDE, "203.0.113.80:80", Some(KnownBug::DropIsForwarded))]
#[case::for_the_node("1.24", ProxyMode::Iptables, "192.0.2.9", "172.18.0.3:30080", None)]
#[case::no_short_circuit(
    "1.14",
    ProxyMode::Iptables,
    "node c",
    "203.0.113.80:80",
    Some(KnownBug::NoShortCircuitForNodes)
)]
#[case::nftables("1.32", ProxyMode::Nftables, "node c", "203.0.113.80:80", Some(KnownBug::ShortCircuitDropped))]
#[case::nftables_node_port("1.32", ProxyMode::Nftables, "node c", "172.18.0.3:30080", None)]
#[case::nftables_with_endpoint("1.32", ProxyMode::Nftables, "node a", "203.0.113.80:80", None)]
#[case::nftables_unmended(
    "1.33.5",
    ProxyMode::Nftables,
    "node c",
    "203.0.113.80:80",
    Some(KnownBug::ShortCircuitDropped)
)]
#[case::nftables_mended("1.33", ProxyMode::Nftables, "node c", "203.0.113.80:80", None)]
#[case::ipv6_localhost("1.25", ProxyMode::Iptables, "localhost a", "[::1]:30080", Some(KnownBug::Ipv6LoopbackLost))]
#[case::unserved_address(
    "1.34",
    ProxyMode::Iptables,
    "localhost c",
    "[::1]:30080",
    Some(KnownBug::RejectedAtEveryAddress)
)]
#[case::unserved_address_with_endpoint("1.34", ProxyMode::Iptables, "localhost a", "[::1]:30080", None)]
#[case::unserved_address_in_nftables_mode("1.34", ProxyMode::Nftables, "localhost c", "[::1]:30080", None)]
#[case::today("1.34", ProxyMode::Iptables, "node c", "203.0.113.80:80", None)]
fn releases_fall_short(
    #[case] version: &str,
    #[case] mode: ProxyMode,
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: Option<KnownBug>,
) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.mode = mode;
    EXTERNAL_LOCAL(&mut cluster);
    INTERNAL_LOCAL(&mut cluster);
    assert_eq!(ask(&cluster, from, to).known_bug, expected);
}

/// The set `hairpin-connections` contains only local endpoints, as in recordings of 1.36.
#[rstest]
#[case::at_another_node(
    "1.36",
    ProxyMode::Nftables,
    "pod web-a",
    "172.18.0.3:30080",
    Some(KnownBug::RemoteHairpinNotMasqueraded)
)]
#[case::at_its_own("1.36", ProxyMode::Nftables, "pod web-a", "10.96.0.80:80", None)]
#[case::no_endpoint("1.36", ProxyMode::Nftables, "pod client", "172.18.0.3:30080", None)]
#[case::before("1.34", ProxyMode::Nftables, "pod web-a", "172.18.0.3:30080", None)]
#[case::iptables("1.36", ProxyMode::Iptables, "pod web-a", "172.18.0.3:30080", None)]
fn what_comes_back_to_its_sender(
    #[case] version: &str,
    #[case] mode: ProxyMode,
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: Option<KnownBug>,
) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.mode = mode;
    EXTERNAL_LOCAL(&mut cluster);
    assert_eq!(ask(&cluster, from, to).known_bug, expected);
    // With policy Cluster, all traffic to the port is masqueraded.
    cluster.services[0].external_traffic_policy = ExternalTrafficPolicy::Cluster;
    assert_eq!(ask(&cluster, from, to).known_bug, None);
}

#[rstest]
#[case::load_balancer(ProxyMode::Iptables, "node c", "203.0.113.80:80", Some(KnownBug::NodeTrafficNotRejected))]
#[case::external_ip(ProxyMode::Iptables, "node c", "203.0.113.81:80", Some(KnownBug::NodeTrafficNotRejected))]
#[case::node_port(ProxyMode::Iptables, "node c", "172.18.0.3:30080", None)]
#[case::cluster_ip(ProxyMode::Iptables, "node c", "10.96.0.80:80", None)]
#[case::pod(ProxyMode::Iptables, "pod client", "203.0.113.80:80", None)]
#[case::nftables(ProxyMode::Nftables, "node c", "203.0.113.80:80", None)]
fn without_endpoints(
    #[case] mode: ProxyMode,
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: Option<KnownBug>,
) {
    let mut cluster = cluster();
    cluster.proxy.mode = mode;
    cluster.slices.clear();
    let promise = ask(&cluster, from, to);
    assert_eq!((brief(&cluster, &promise), promise.known_bug), ("rejected".to_owned(), expected));
}

#[rstest]
#[case::external_policy_of_external_ips("1.28", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::external_policy_of_external_ips_now("1.29", "dropped")]
fn a_policy_came_with_a_release(#[case] version: &str, #[case] expected: &str) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.services[0].kind = ServiceType::ClusterIp;
    EXTERNAL_LOCAL(&mut cluster);
    assert_eq!(brief(&cluster, &ask(&cluster, OUTSIDE, "203.0.113.81:80")), expected);
}

#[rstest]
#[case::masqueraded("1.20", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::kept("1.23", "web-a 1/2 kept or node a, web-b 1/2 kept or node a")]
#[case::masqueraded_again("1.24", "web-a 1/2 node a, web-b 1/2 node a")]
fn the_source_of_pods_at_external_ips_differs_by_release(#[case] version: &str, #[case] expected: &str) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "203.0.113.81:80")), expected);
}

/// During an upgrade, the release on the node that handles the packet decides.
#[rstest]
#[case::sender_of_the_clusters_release("b", "1.23", "pod client", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::sender_of_another("c", "1.23", "pod other", "web-a 1/2 kept or node c, web-b 1/2 kept or node c")]
#[case::first_node_is_another("a", "1.23", "pod other", "web-a 1/2 node c, web-b 1/2 node c")]
fn each_node_has_its_own_release(
    #[case] node: &str,
    #[case] release: &str,
    #[case] from: &str,
    #[case] expected: &str,
) {
    let cluster = upgraded("1.24", node, release);
    assert_eq!(brief(&cluster, &ask(&cluster, from, "203.0.113.81:80")), expected);
}

#[rstest]
#[case::of_the_cluster("1.24", "b", "1.34", Some(KnownBug::DropIsForwarded))]
#[case::of_the_node_that_it_enters("1.24", "c", "1.34", None)]
#[case::of_an_older_node("1.34", "c", "1.24", Some(KnownBug::DropIsForwarded))]
fn a_node_has_the_bugs_of_its_own_release(
    #[case] version: &str,
    #[case] node: &str,
    #[case] release: &str,
    #[case] expected: Option<KnownBug>,
) {
    let mut cluster = upgraded(version, node, release);
    EXTERNAL_LOCAL(&mut cluster);
    INTERNAL_LOCAL(&mut cluster);
    assert_eq!(ask(&cluster, OUTSIDE, "203.0.113.80:80").known_bug, expected);
}

/// The rules and the promise of a node whose kube-proxy is stopped are still those of its own release.
#[test]
fn a_stopped_node_keeps_its_release() {
    let mut cluster = upgraded("1.34", "b", "1.24");
    cluster.stop_proxy("b");
    cluster.nodes[1].release = Some("1.25".to_owned());
    let then = cluster.synced_on("b");
    assert_eq!(then.node("b").map(|node| then.release_on(node)), Some("1.25"));
}

fn upgraded(version: &str, node: &str, release: &str) -> Cluster {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    let of_node = cluster.nodes.iter_mut().find(|other| other.name == node);
    of_node.expect("a node of the cluster").release = Some(release.to_owned());
    cluster
}

const UNALLOCATED: &str = "10.96.99.99:80";

#[rstest]
#[case::unknown_ranges("1.32", ProxyMode::Nftables, &[], UNALLOCATED, "unrouted")]
#[case::by_gate("1.32", ProxyMode::Nftables, &[("MultiCIDRServiceAllocator", true)], UNALLOCATED, "dropped")]
#[case::known_ranges("1.33", ProxyMode::Nftables, &[], UNALLOCATED, "dropped")]
#[case::other_family("1.33", ProxyMode::Nftables, &[], "[fd00:96::99]:80", "unrouted")]
#[case::used_address("1.33", ProxyMode::Nftables, &[], "10.96.0.80:81", "rejected")]
#[case::iptables("1.33", ProxyMode::Iptables, &[], UNALLOCATED, "unrouted")]
#[case::external_ip("1.35", ProxyMode::Iptables, &[("AllowServiceExternalIPs", false)], "203.0.113.81:80", BOTH_KEPT)]
#[case::external_ip_off("1.36", ProxyMode::Iptables, &[("AllowServiceExternalIPs", false)], "203.0.113.81:80", "unrouted")]
#[case::external_ip_on("1.36", ProxyMode::Iptables, &[], "203.0.113.81:80", BOTH_KEPT)]
fn addresses_depend_on_release_and_gates(
    #[case] version: &str,
    #[case] mode: ProxyMode,
    #[case] gates: &[(&str, bool)],
    #[case] to: &str,
    #[case] expected: &str,
) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.mode = mode;
    cluster.proxy.feature_gates = gates.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
    cluster.service_cidrs = vec!["10.96.0.0/16".parse().unwrap()];
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", to)), expected);
}

const BOTH_KEPT: &str = "web-a 1/2 node a, web-b 1/2 node a";

/// A range of length 0 allows all clients, both in releases that write it and in those that omit it.
#[rstest]
#[case("1.33")]
#[case("1.34")]
fn a_source_range_of_length_0_admits_all_sources(#[case] version: &str) {
    let change = |ranges: &[&str]| {
        let mut cluster = cluster();
        cluster.proxy.version = version.to_owned();
        cluster.services[0].source_ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
        brief(&cluster, &ask(&cluster, OUTSIDE, "203.0.113.80:80"))
    };
    assert_eq!(change(&["192.168.0.0/16", "0.0.0.0/0"]), change(&[]));
    assert_eq!(change(&["192.168.0.0/16"]), "dropped");
}

/// IPv6 node ports in nftables mode if `nodePortAddresses` contains only IPv4 ranges.
#[rstest]
#[case::primary_address("1.30", "[fd00:172::3]:30080", true)]
#[case::another_address("1.30", "[fd00:99::3]:30080", false)]
#[case::all_addresses("1.31", "[fd00:99::3]:30080", true)]
#[case::of_the_family("1.31", "172.18.0.3:30080", false)]
fn a_family_without_ranges_has_node_ports(#[case] version: &str, #[case] to: &str, #[case] is_served: bool) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.mode = ProxyMode::Nftables;
    cluster.proxy.node_port_addresses = vec!["192.168.0.0/16".parse().unwrap()];
    cluster.nodes[2].external_ips.push(ip("fd00:99::3"));
    assert_eq!(ask(&cluster, "node c", to).service.is_some(), is_served);
}

#[test]
fn before_dual_stack_a_node_serves_one_family() {
    let change: Change = |cluster| cluster.proxy.version = "1.20".to_owned();
    assert_eq!(answer(change, "pod client", "[fd00:96::80]:80"), "unrouted");
    assert_eq!(answer(change, "pod client", "10.96.0.80:80"), "web-a 1/2 kept, web-b 1/2 kept");
}

#[test]
fn an_unknown_release_is_reported() {
    let mut cluster = cluster();
    cluster.proxy.version = "1.99".to_owned();
    assert!(Promises::of(&cluster).is_err());
    assert!(questions(&cluster, &[]).is_err());
    let cluster = upgraded("1.34", "c", "1.99");
    assert!(Promises::of(&cluster).is_err());
    assert!(questions(&cluster, &[]).is_err());
}

/// An address with a ready entry on node b, and a terminating one on node a.
#[rstest]
#[case::own_entry("1.35", "pod client", Some(KnownBug::LocalDuplicateWins))]
#[case::other_node("1.35", "pod other", None)]
#[case::running_entry("1.36", "pod client", None)]
fn an_own_entry_hides_a_ready_one(#[case] version: &str, #[case] from: &str, #[case] expected: Option<KnownBug>) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    let ending = Endpoint { ready: false, terminating: true, ..endpoint("10.244.1.3") };
    cluster.slices[0].endpoints[0].node = Some("b".to_owned());
    assert_eq!(ask(&cluster, from, "10.96.0.80:80").known_bug, None);
    cluster.slices[0].endpoints.push(ending);
    let promise = ask(&cluster, from, "10.96.0.80:80");
    assert_eq!(promise.known_bug, expected);
    assert_eq!(brief(&cluster, &promise), "web-a 1/2 kept, web-b 1/2 kept");
}

/// Nothing is lost by a missing short-circuit path where every endpoint is on the node itself.
#[rstest]
#[case::here("node a", None)]
#[case::elsewhere("node c", Some(KnownBug::NoShortCircuitForNodes))]
fn a_short_circuit_leads_to_other_nodes(#[case] from: &str, #[case] expected: Option<KnownBug>) {
    let mut cluster = cluster();
    cluster.proxy.version = "1.14".to_owned();
    EXTERNAL_LOCAL(&mut cluster);
    cluster.slices = vec![slice("four", Family::Ipv4, &["10.244.1.3"])];
    assert_eq!(ask(&cluster, from, "203.0.113.80:80").known_bug, expected);
}
