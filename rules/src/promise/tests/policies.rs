//! Traffic policies, short-circuit paths and source ranges.

use rstest::rstest;

use super::*;

#[rstest]
#[case::on_the_node(OUTSIDE_AT_A, "203.0.113.80:80", "web-a 1/1 kept")]
#[case::not_on_the_node(OUTSIDE, "203.0.113.80:80", "dropped")]
#[case::node_port_not_on_the_node("192.0.2.9", "172.18.0.3:30080", "dropped")]
#[case::short_circuit_of_a_pod("pod other", "203.0.113.80:80", "web-a 1/2 kept, web-b 1/2 kept")]
#[case::short_circuit_of_a_node("node c", "203.0.113.80:80", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::short_circuit_of_localhost("localhost c", "127.0.0.1:30080", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::short_circuit_by_the_own_nodes_port("pod other", "172.18.0.3:30080", "web-a 1/2 kept, web-b 1/2 kept")]
#[case::by_another_nodes_port("pod client", "172.18.0.2:30080", "web-a 1/2 kept past, web-b 1/2 kept")]
#[case::a_node_by_another_nodes_port("node c", "172.18.0.2:30080", "web-b 1/1 node c")]
#[case::the_cluster_ip("pod other", "10.96.0.80:80", "web-a 1/2 kept, web-b 1/2 kept")]
fn external_policy_local(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    assert_eq!(answer(EXTERNAL_LOCAL, from, to), expected);
}

#[rstest]
#[case::on_the_node("pod client", "10.96.0.80:80", "web-a 1/1 kept")]
#[case::not_on_the_node("pod other", "10.96.0.80:80", "dropped")]
#[case::a_process_not_on_the_node("node c", "10.96.0.80:80", "dropped")]
#[case::external_addresses("pod other", "203.0.113.80:80", "web-a 1/2 node c, web-b 1/2 node c")]
fn internal_policy_local(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    assert_eq!(answer(INTERNAL_LOCAL, from, to), expected);
}

#[rstest]
#[case::in_range("192.0.2.9 via c", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::out_of_range("198.18.0.9 via c", "dropped")]
#[case::pod_out_of_range("pod client", "dropped")]
#[case::node_in_range("node a", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::node_out_of_range("node c", "dropped")]
fn source_ranges(#[case] from: &str, #[case] expected: &str) {
    let change: Change = |cluster| {
        cluster.services[0].source_ranges = vec!["192.0.2.0/24".parse().unwrap(), "172.18.0.1/32".parse().unwrap()];
    };
    assert_eq!(answer(change, from, "203.0.113.80:80"), expected);
    assert!(answer(change, from, "203.0.113.81:80").starts_with("web-a"), "external IPs have no ranges");
}

/// The kernel chooses among a node's addresses, so ranges that allow some of them promise nothing to it.
#[rstest]
#[case::some("172.18.0.1/32", "not promised")]
#[case::others("172.19.0.0/16", "not promised")]
#[case::all("172.18.0.0/15", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::none("192.0.2.0/24", "dropped")]
fn source_ranges_of_a_node_with_several_addresses(#[case] range: &str, #[case] expected: &str) {
    let mut cluster = cluster();
    cluster.services[0].source_ranges = vec![range.parse().unwrap()];
    cluster.nodes[0].internal_ips.push(ip("172.19.0.1"));
    assert_eq!(brief(&cluster, &ask(&cluster, "node a", "203.0.113.80:80")), expected);
}

/// Node a has the load balancer's address on one of its interfaces, so its packets to that address also come from it.
#[rstest]
#[case::node_in_range("1.34", "172.18.0.0/30", "node a", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::node_out_of_range("1.34", "172.18.0.3/32", "node a", "dropped")]
#[case::before_dual_stack("1.20", "172.18.0.1/32", "node a", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::node_not_known("1.24", "172.18.0.1/32", "node a", "dropped")]
#[case::node_known_again("1.29", "172.18.0.1/32", "node a", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::only_an_external_address_of_the_node("1.34", "198.51.100.1/32", "node a", "dropped")]
#[case::a_host_with_that_address("1.34", "172.18.0.3/32", "203.0.113.80 via c", "web-a 1/2 node c, web-b 1/2 node c")]
fn own_addresses_of_a_load_balancer_are_admitted_with_the_node(
    #[case] version: &str,
    #[case] range: &str,
    #[case] from: &str,
    #[case] expected: &str,
) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.services[0].source_ranges = vec![range.parse().unwrap()];
    if from == "node a" {
        cluster.nodes[0].external_ips.push(ip("203.0.113.80"));
    }
    assert_eq!(brief(&cluster, &ask(&cluster, from, "203.0.113.80:80")), expected);
}

#[test]
fn who_is_out_of_range_of_nothing_is_rejected_somehow() {
    let change: Change = |cluster| {
        cluster.services[0].source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
        cluster.slices.clear();
    };
    assert_eq!(answer(change, "pod client", "203.0.113.80:80"), "rejected");
}
