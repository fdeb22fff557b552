//! Selection of the endpoints that serve.

use rstest::rstest;

use super::*;

/// Sets the conditions of the IPv4 endpoints, first of `web-a`, then of `web-b`: ready, serving, terminating.
fn set_conditions(cluster: &mut Cluster, conditions: [(bool, bool, bool); 2]) {
    for (endpoint, (ready, serving, terminating)) in cluster.slices[0].endpoints.iter_mut().zip(conditions) {
        (endpoint.ready, endpoint.serving, endpoint.terminating) = (ready, Some(serving), terminating);
    }
}

const READY: (bool, bool, bool) = (true, true, false);
const UNREADY: (bool, bool, bool) = (false, false, false);
const LEAVING: (bool, bool, bool) = (false, true, true);
const GONE: (bool, bool, bool) = (false, false, true);

#[rstest]
#[case::ready([READY, READY], "web-a 1/2 kept, web-b 1/2 kept")]
#[case::not_ready([READY, UNREADY], "web-a 1/1 kept")]
#[case::none_ready([UNREADY, UNREADY], "rejected")]
#[case::beside_a_ready_one([READY, LEAVING], "web-a 1/1 kept")]
#[case::leaving_stands_in([UNREADY, LEAVING], "web-b 1/1 kept")]
#[case::both_leave([LEAVING, LEAVING], "web-a 1/2 kept, web-b 1/2 kept")]
#[case::gone([UNREADY, GONE], "rejected")]
fn endpoint_conditions(#[case] conditions: [(bool, bool, bool); 2], #[case] expected: &str) {
    let mut cluster = cluster();
    set_conditions(&mut cluster, conditions);
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), expected);
    let by_the_port = ask(&cluster, "pod client", "172.18.0.1:30080");
    assert_eq!(brief(&cluster, &by_the_port), expected.replace("kept", "node a"));
}

#[rstest]
#[case::the_nodes_own_stands_in([LEAVING, READY], "web-a 1/1 kept")]
#[case::not_with_a_ready_one_elsewhere([GONE, READY], "dropped")]
#[case::none_anywhere([GONE, GONE], "rejected")]
#[case::leaving_elsewhere([UNREADY, LEAVING], "dropped")]
fn conditions_with_policy_local(#[case] conditions: [(bool, bool, bool); 2], #[case] expected: &str) {
    let mut cluster = cluster();
    EXTERNAL_LOCAL(&mut cluster);
    set_conditions(&mut cluster, conditions);
    assert_eq!(brief(&cluster, &ask(&cluster, OUTSIDE_AT_A, "203.0.113.80:80")), expected);
}

#[rstest]
#[case::not_yet("1.25", None, "rejected")]
#[case::by_the_gate("1.25", Some(true), "web-a 1/2 kept, web-b 1/2 kept")]
#[case::by_default("1.26", None, "web-a 1/2 kept, web-b 1/2 kept")]
fn terminating_endpoints_came_with_a_release(
    #[case] version: &str,
    #[case] gate: Option<bool>,
    #[case] expected: &str,
) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.feature_gates.extend(gate.map(|on| ("ProxyTerminatingEndpoints".to_owned(), on)));
    set_conditions(&mut cluster, [LEAVING, LEAVING]);
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), expected);
}

/// An endpoint without a serving condition serves.
#[rstest]
#[case("1.30")]
#[case("1.33")]
#[case("1.36")]
fn an_endpoint_that_is_terminating_serves_by_default(#[case] version: &str) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    set_conditions(&mut cluster, [LEAVING, LEAVING]);
    cluster.slices[0].endpoints[0].serving = None;
    cluster.slices[0].endpoints[1].serving = Some(false);
    for policy in [(|_| ()) as Change, INTERNAL_LOCAL] {
        policy(&mut cluster);
        assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), "web-a 1/1 kept");
    }
}

#[test]
fn an_endpoint_of_two_slices_counts_once_and_as_ready() {
    let mut cluster = cluster();
    let mut second = slice("second", Family::Ipv4, &["10.244.1.3"]);
    second.endpoints[0].ready = false;
    cluster.slices.insert(0, second);
    let promise = ask(&cluster, "pod client", "10.96.0.80:80");
    assert_eq!(brief(&cluster, &promise), "web-a 1/2 kept, web-b 1/2 kept");
}

#[test]
fn a_slices_port_serves_the_service_port_of_its_name() {
    let change: Change = |cluster| cluster.slices[0].ports[0].name = "other".to_owned();
    assert_eq!(answer(change, "pod client", "10.96.0.80:80"), "rejected");
}

/// Gives each IPv4 endpoint hints for zones and nodes.
fn hint(cluster: &mut Cluster, zones: [Option<&str>; 2], nodes: [Option<&str>; 2]) {
    for (endpoint, (zone, node)) in cluster.slices[0].endpoints.iter_mut().zip(zones.into_iter().zip(nodes)) {
        endpoint.zone_hints = zone.map(|zone| vec![zone.to_owned()]);
        endpoint.node_hints = node.map(|node| vec![node.to_owned()]);
    }
}

#[rstest]
#[case::for_the_zone([Some("zone-a"), Some("zone-b")], [None, None], "web-a 1/1 kept")]
#[case::for_other_zones([Some("zone-b"), Some("zone-c")], [None, None], "web-a 1/2 kept, web-b 1/2 kept")]
#[case::one_without([Some("zone-a"), None], [None, None], "web-a 1/2 kept, web-b 1/2 kept")]
#[case::for_the_node([None, None], [Some("b"), Some("a")], "web-b 1/1 kept")]
#[case::node_before_zone([Some("zone-a"), Some("zone-b")], [Some("b"), Some("a")], "web-b 1/1 kept")]
#[case::zone_where_no_node([Some("zone-a"), Some("zone-b")], [Some("b"), Some("c")], "web-a 1/1 kept")]
fn hints(#[case] zones: [Option<&str>; 2], #[case] nodes: [Option<&str>; 2], #[case] expected: &str) {
    let mut cluster = cluster();
    hint(&mut cluster, zones, nodes);
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), expected);
}

#[rstest]
#[case::not_yet("1.33", None, "web-a 1/2 kept, web-b 1/2 kept")]
#[case::by_the_gate("1.33", Some(true), "web-a 1/1 kept")]
#[case::by_default("1.34", None, "web-a 1/1 kept")]
#[case::without_the_gate("1.34", Some(false), "web-a 1/2 kept, web-b 1/2 kept")]
fn node_hints_came_with_a_release(#[case] version: &str, #[case] gate: Option<bool>, #[case] expected: &str) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    cluster.proxy.feature_gates.extend(gate.map(|on| ("PreferSameTrafficDistribution".to_owned(), on)));
    hint(&mut cluster, [None, None], [Some("a"), Some("b")]);
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), expected);
}

#[rstest]
#[case::without_annotation("1.30", None, false)]
#[case::asked_for("1.30", Some(("topology-mode", "Auto")), true)]
#[case::asked_for_otherwise("1.30", Some(("topology-mode", "example.com/mine")), true)]
#[case::rejected("1.30", Some(("topology-mode", "Disabled")), false)]
#[case::old_word("1.26", Some(("topology-aware-hints", "Auto")), true)]
#[case::new_word_too_early("1.26", Some(("topology-mode", "Auto")), false)]
#[case::without_need_of_it("1.31", None, true)]
fn hints_are_asked_for(#[case] version: &str, #[case] annotation: Option<(&str, &str)>, #[case] counts: bool) {
    let mut cluster = cluster();
    cluster.proxy.version = version.to_owned();
    let annotation = annotation.map(|(name, value)| (format!("service.kubernetes.io/{name}"), value.to_owned()));
    cluster.services[0].annotations.extend(annotation);
    hint(&mut cluster, [Some("zone-a"), Some("zone-b")], [None, None]);
    let expected = if counts { "web-a 1/1 kept" } else { "web-a 1/2 kept, web-b 1/2 kept" };
    assert_eq!(brief(&cluster, &ask(&cluster, "pod client", "10.96.0.80:80")), expected);
}

#[test]
fn hints_do_not_count_with_policy_local() {
    let change: Change = |cluster| {
        INTERNAL_LOCAL(cluster);
        hint(cluster, [Some("zone-b"), Some("zone-a")], [None, None]);
    };
    assert_eq!(answer(change, "pod client", "10.96.0.80:80"), "web-a 1/1 kept");
}

#[test]
fn affinity_has_its_timeout() {
    let mut cluster = cluster();
    cluster.services[0].affinity_seconds = Some(600);
    let promise = ask(&cluster, "pod client", "10.96.0.80:80");
    assert!(matches!(promise.outcome, PromisedOutcome::Delivered { affinity_seconds: Some(600), .. }));
    assert!(promise.because.contains(&Clause::Affinity));
}
