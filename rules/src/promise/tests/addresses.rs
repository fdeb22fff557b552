//! Lookup of services by address.

use rstest::rstest;

use super::*;

#[rstest]
#[case::cluster_ip("pod client", "10.96.0.80:80", "web-a 1/2 kept, web-b 1/2 kept")]
#[case::cluster_ip_v6("pod client", "[fd00:96::80]:80", "web-a 1/2 kept, web-b 1/2 kept")]
#[case::cluster_ip_of_a_node("node c", "10.96.0.80:80", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::cluster_ip_from_outside(OUTSIDE, "10.96.0.80:80", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::external_ip(OUTSIDE, "203.0.113.81:80", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::external_ip_of_a_pod("pod client", "203.0.113.81:80", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::load_balancer(OUTSIDE, "203.0.113.80:80", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::node_port("192.0.2.9", "172.18.0.3:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::node_port_at_the_external_ip("192.0.2.9", "198.51.100.3:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::node_port_v6("pod client", "[fd00:172::1]:30080", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::another_nodes_port("pod client", "172.18.0.3:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::localhost("localhost c", "127.0.0.1:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::localhost_to_the_node("localhost c", "172.18.0.3:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::localhost_v6("localhost c", "[::1]:30080", "own node c")]
#[case::localhost_v6_to_the_node("localhost c", "[fd00:172::3]:30081", "not promised")]
#[case::localhost_v4_to_the_node("localhost c", "172.18.0.3:30081", "own node c")]
#[case::localhost_to_a_service("localhost c", "10.96.0.80:80", "not promised")]
#[case::localhost_of_a_pod("pod client", "127.0.0.1:30080", "not promised")]
#[case::unused_port("pod client", "10.96.0.80:81", "unrouted")]
#[case::unused_protocol("pod client", "10.96.0.80:80/udp", "unrouted")]
#[case::unused_node_port("pod client", "172.18.0.3:30081", "own node c")]
#[case::node_port_of_another_protocol("node a", "172.18.0.1:30080/udp", "own node a")]
#[case::target_port_of_the_service("pod client", "10.96.0.80:8080", "unrouted")]
#[case::a_pods_own_address("pod client", "10.244.2.3:8080", "own pod web-b kept")]
#[case::a_pods_own_address_from_a_node("node a", "10.244.2.3:8080", "own pod web-b node a")]
#[case::unknown_client("pod missing", "10.96.0.80:80", "not promised")]
#[case::wrong_family("192.0.2.9 via a", "[fd00:96::80]:80", "not promised")]
fn addresses(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    assert_eq!(answer(AS_IT_IS, from, to), expected);
}

#[rstest]
#[case::headless(|cluster: &mut Cluster| cluster.services[0].headless = true, "10.96.0.80:80", "unrouted")]
#[case::external_name(|cluster: &mut Cluster| cluster.services[0].kind = ServiceType::ExternalName, "10.96.0.80:80", "unrouted")]
#[case::other_proxy(
    |cluster: &mut Cluster| drop(label(cluster, "service.kubernetes.io/service-proxy-name")), "10.96.0.80:80", "unrouted"
)]
#[case::headless_label(|cluster: &mut Cluster| drop(label(cluster, "service.kubernetes.io/headless")), "10.96.0.80:80", "unrouted")]
#[case::one_family(|cluster: &mut Cluster| cluster.services[0].cluster_ips.truncate(1), "[fd00:172::1]:30080", "own node a")]
#[case::cluster_ip_type(|cluster: &mut Cluster| cluster.services[0].kind = ServiceType::ClusterIp, "172.18.0.1:30080", "own node a")]
#[case::not_balanced(|cluster: &mut Cluster| cluster.services[0].kind = ServiceType::NodePort, "203.0.113.80:80", "unrouted")]
#[case::ip_mode_proxy(|cluster: &mut Cluster| cluster.services[0].load_balancer[0].mode = IpMode::Proxy, "203.0.113.80:80", "unrouted")]
#[case::two_claims(
    |cluster: &mut Cluster| {
        let name = ObjectName::new("default", "thief");
        cluster.services.push(Service { name, cluster_ips: vec![ip("10.96.0.81")], ..web() });
    },
    "203.0.113.81:80",
    "not promised"
)]
#[case::unused_port_in_nftables_mode(|cluster: &mut Cluster| cluster.proxy.mode = ProxyMode::Nftables, "10.96.0.80:81", "rejected")]
fn who_has_an_address(#[case] change: Change, #[case] to: &str, #[case] expected: &str) {
    assert_eq!(answer(change, "pod client", to), expected);
}

fn label(cluster: &mut Cluster, name: &str) -> Option<String> {
    cluster.services[0].labels.insert(name.to_owned(), String::new())
}

#[rstest]
#[case::in_range(&["172.18.0.0/16"], "172.18.0.3:30080", true)]
#[case::out_of_range(&["172.18.0.0/16"], "198.51.100.3:30080", false)]
#[case::loopback_out_of_range(&["172.18.0.0/16"], "127.0.0.1:30080", false)]
#[case::loopback_in_range(&["127.0.0.0/8"], "127.0.0.1:30080", true)]
#[case::only_the_interface_has_an_address(&["127.0.0.0/8"], "127.1.2.3:30080", false)]
#[case::all_of_loopback(&[], "127.1.2.3:30080", true)]
#[case::everywhere(&["0.0.0.0/0"], "198.51.100.3:30080", true)]
#[case::the_other_family_is_not_limited(&["172.18.0.0/16"], "[fd00:172::3]:30080", true)]
fn node_port_addresses(#[case] ranges: &[&str], #[case] to: &str, #[case] served: bool) {
    let mut cluster = cluster();
    cluster.proxy.node_port_addresses = ranges.iter().map(|range| range.parse().unwrap()).collect();
    let promise = ask(&cluster, "node c", to);
    assert_eq!(matches!(promise.outcome, PromisedOutcome::Delivered { .. }), served, "{}", promise.outcome);
}

#[rstest]
#[case::switched_off(|cluster: &mut Cluster| cluster.proxy.localhost_node_ports = false)]
#[case::primary(|cluster: &mut Cluster| cluster.proxy.primary_node_ports = true)]
#[case::nftables(|cluster: &mut Cluster| cluster.proxy.mode = ProxyMode::Nftables)]
fn node_ports_are_not_on_localhost(#[case] change: Change) {
    assert_eq!(answer(change, "localhost c", "127.0.0.1:30080"), "own node c");
    assert_eq!(answer(change, "localhost c", "172.18.0.3:30080"), "not promised");
}

#[rstest]
fn primary_node_ports_are_on_one_address(
    #[values(|cluster: &mut Cluster| cluster.proxy.primary_node_ports = true, |cluster: &mut Cluster| cluster.proxy.mode = ProxyMode::Nftables)]
    change: Change,
) {
    assert_eq!(answer(change, "192.0.2.9", "172.18.0.3:30080"), "web-a 1/2 node c, web-b 1/2 node c");
    assert_eq!(answer(change, "192.0.2.9", "198.51.100.3:30080"), "own node c");
}
