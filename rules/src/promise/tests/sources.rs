//! The sources that endpoints see, and the replies that clients see.

use rstest::rstest;

use super::*;
use crate::cluster::DetectLocal;

#[rstest]
#[case::by_range(DetectLocal::ClusterCidr, "kept", "node c", "kept")]
#[case::by_node_range(DetectLocal::NodeCidr, "kept", "node c", "dropped")]
#[case::by_bridge(DetectLocal::BridgeInterface("cbr0".to_owned()), "kept", "node c", "dropped")]
#[case::by_interface(DetectLocal::InterfaceNamePrefix("veth".to_owned()), "kept", "node c", "dropped")]
fn pods_are_detected(
    #[case] mode: DetectLocal,
    #[case] pod: &str,
    #[case] outside: &str,
    #[case] pod_of_another_node: &str,
) {
    let mut cluster = cluster();
    cluster.proxy.detect_local = mode;
    let both = |source: &str| format!("web-a 1/2 {source}, web-b 1/2 {source}");
    assert_eq!(brief(&cluster, &ask(&cluster, "pod other", "10.96.0.80:80")), both(pod));
    assert_eq!(brief(&cluster, &ask(&cluster, OUTSIDE, "10.96.0.80:80")), both(outside));
    EXTERNAL_LOCAL(&mut cluster);
    let at_c = brief(&cluster, &ask(&cluster, "pod client", "172.18.0.3:30080"));
    let short_circuit = "web-a 1/2 kept past, web-b 1/2 kept past";
    assert_eq!(at_c, if pod_of_another_node == "kept" { short_circuit } else { pod_of_another_node });
}

#[rstest]
#[case::pod("pod client", "web-a 1/2 kept, web-b 1/2 kept")]
#[case::node("node c", "web-a 1/2 node c, web-b 1/2 node c")]
#[case::outside(OUTSIDE_AT_A, "web-a 1/2 kept, web-b 1/2 kept past")]
fn without_cluster_cidr_no_one_is_masqueraded(#[case] from: &str, #[case] expected: &str) {
    assert_eq!(answer(|cluster| cluster.proxy.cluster_cidrs.clear(), from, "10.96.0.80:80"), expected);
}

#[rstest]
#[case::masquerade_all(|cluster: &mut Cluster| cluster.proxy.masquerade_all = true, "pod client", "web-a 1/2 node a, web-b 1/2 node a")]
#[case::hairpin(AS_IT_IS, "pod web-a", "web-a 1/2 node a, web-b 1/2 kept")]
fn masquerade(#[case] change: Change, #[case] from: &str, #[case] expected: &str) {
    assert_eq!(answer(change, from, "10.96.0.80:80"), expected);
}

#[rstest]
#[case::in_the_nodes_own_network("192.0.2.9", "172.18.0.1:30080", "172.18.0.1:8080 1/1 kept")]
#[case::from_another_node("192.0.2.9", "172.18.0.2:30080", "172.18.0.1:8080 1/1 node b")]
#[case::a_pod_of_that_node("pod client", "10.96.0.80:80", "172.18.0.1:8080 1/1 kept or node a")]
#[case::a_pod_of_another_node("pod other", "10.96.0.80:80", "172.18.0.1:8080 1/1 kept or node c")]
#[case::the_node_itself("node a", "10.96.0.80:80", "172.18.0.1:8080 1/1 node a")]
fn endpoints_with_host_network(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let change: Change = |cluster| cluster.slices[0].endpoints = vec![endpoint("172.18.0.1")];
    assert_eq!(answer(change, from, to), expected);
}

#[rstest]
#[case::a_pod("pod client", "203.0.113.7:8080 1/1 kept or node a maybe")]
#[case::a_node("node a", "203.0.113.7:8080 1/1 node a")]
#[case::itself("203.0.113.7 via c", "203.0.113.7:8080 1/1 node c")]
fn endpoints_outside_of_the_cluster(#[case] from: &str, #[case] expected: &str) {
    let change: Change = |cluster| cluster.slices[0].endpoints = vec![endpoint("203.0.113.7")];
    assert_eq!(answer(change, from, "10.96.0.80:80"), expected);
}

#[test]
fn a_client_with_host_network_is_a_process_of_its_node() {
    let change: Change = |cluster| {
        cluster.pods[3].host_network = true;
        cluster.pods[3].ips = cluster.nodes[2].internal_ips.clone();
        EXTERNAL_LOCAL(cluster);
    };
    for to in ["10.96.0.80:80", "203.0.113.80:80", "127.0.0.1:30080"] {
        assert_eq!(answer(change, "pod other", to), "web-a 1/2 node c, web-b 1/2 node c");
    }
}
