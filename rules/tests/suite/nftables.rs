//! nftables mode of releases without recordings, and clusters that it cannot generate rules for.

use std::path::Path;

use rstest::rstest;
use serde::Deserialize;
use svclab_rules::cluster::objects::{Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, DetectLocal, Family};
use svclab_rules::nftables::{generate, print};

use crate::each_file::each_file;

/// Returns the cluster of a recording, with another release.
fn cluster(name: &str, version: &str) -> Cluster {
    let folder = Path::new("tests/golden").join(name);
    let text = std::fs::read_to_string(folder.join("cluster.yaml")).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|document| Object::deserialize(document).unwrap()).collect();
    let config = std::fs::read_to_string(folder.join("proxy-config.yaml")).unwrap();
    let proxy = proxy_config(&serde_yaml::from_str(&config).unwrap(), version).unwrap();
    assemble(&objects, proxy).unwrap().cluster
}

fn table(cluster: &Cluster) -> String {
    print(&generate(cluster, &cluster.nodes[0], Family::Ipv4).unwrap())
}

/// Returns the lines inside a set or chain, without indentation.
fn block<'a>(table: &'a str, head: &str) -> Option<Vec<&'a str>> {
    let start = table.find(&format!("\t{head} {{\n"))?;
    let lines = table[start..].lines().skip(1).take_while(|line| *line != "\t}");
    Some(lines.map(str::trim).collect())
}

/// The first three changed in 1.33.6, and are as in the recordings of 1.34.
#[rstest]
#[case("chain filter-output-pre-dnat", &[
    "type filter hook output priority -110; policy accept;",
    "ct state new jump firewall-check",
])]
#[case("chain filter-output", &[
    "type filter hook output priority filter; policy accept;",
    "ct state new jump service-endpoints-check",
    "ct state new jump cluster-ips-check",
])]
#[case("chain filter-forward", &[
    "type filter hook forward priority filter; policy accept;",
    "ct state new jump service-endpoints-check",
    "ct state new jump cluster-ips-check",
])]
#[case("chain mark-for-masquerade", &["meta mark set meta mark | 0x00004000"])]
fn layout_of_1_33(#[case] head: &str, #[case] lines: &[&str]) {
    let table = table(&cluster("clusterip-three-endpoints", "1.33"));
    assert_eq!(block(&table, head).unwrap(), lines);
    assert_eq!(block(&table, "chain filter-output-post-dnat"), None);
}

/// The table on a node with kube-proxy of that time.
#[rstest]
#[case("set hairpin-connections", &[
    "type ipv4_addr . ipv4_addr . inet_proto . inet_service",
    "comment \"service hairpin connections\"",
    "elements = { 10.244.1.10 . 10.244.1.10 . tcp . 8080 }",
])]
#[case("chain services", &[
    "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 comment \"masquerade clusterIP traffic from outside cluster\"",
    "ip daddr . meta l4proto . th dport vmap @service-ips",
    "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports",
])]
#[case("chain masquerading", &[
    "meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random",
    "ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random",
])]
#[case("chain service-SUSTUHLJ-default/web/tcp/http", &[
    "meta l4proto tcp dnat ip to numgen random mod 3 map { 0 : 10.244.1.10 . 8080, 1 : 10.244.2.10 . 8080, 2 : 10.244.3.10 . 8080 }",
])]
fn layout_of_1_36(#[case] head: &str, #[case] lines: &[&str]) {
    let table = table(&cluster("clusterip-three-endpoints", "1.36"));
    assert_eq!(block(&table, head).unwrap(), lines);
    assert!(!table.contains("mark-for-masquerade") && !table.contains("chain endpoint-"), "{table}");
}

#[rstest]
#[case("1.36", "meta l4proto tcp dnat ip to numgen random mod 1 map { 0 : 10.244.2.10 . 8080 }")]
#[case("1.37", "meta l4proto tcp dnat to 10.244.2.10:8080")]
fn a_single_endpoint(#[case] version: &str, #[case] rule: &str) {
    let table = table(&cluster("clusterip-one-endpoint", version));
    assert_eq!(block(&table, "chain service-SUSTUHLJ-default/web/tcp/http").unwrap(), [rule]);
}

/// The recorded releases, and the last ones before a change between two of them.
#[rstest]
#[case("1.32.5", "priority -90;")]
#[case("1.33.2", "priority -90;")]
#[case("1.33.5", "priority -90;")]
#[case("1.33.6", "priority filter;")]
#[case("1.33", "priority filter;")]
#[case("1.34.0", "priority filter;")]
fn filters_see_translated_destinations_later(#[case] version: &str, #[case] priority: &str) {
    let table = table(&cluster("clusterip-three-endpoints", version));
    let check =
        table.split("\tchain ").find(|chain| chain.contains("hook output") && chain.contains("cluster-ips-check"));
    assert!(check.unwrap().contains(priority), "{table}");
}

#[rstest]
#[case("1.32", "iif \"cni0\"")]
#[case("1.33.5", "iif \"cni0\"")]
#[case("1.33", "iifname \"cni0\"")]
#[case("1.34", "iifname \"cni0\"")]
#[case("1.34.1", "iif \"cni0\"")]
#[case("1.35", "iifname \"cni0\"")]
fn interfaces_are_compared_by_name_later(#[case] version: &str, #[case] condition: &str) {
    let table = table(&cluster("config-local-bridge", version));
    assert!(table.contains(condition), "{table}");
}

/// Ranges of ServiceCIDR objects of the family, as nft lists them. `MultiCIDRServiceAllocator` is on by default from 1.33, and cannot be
/// disabled from 1.34 on.
#[rstest]
#[case("1.32", None, &["10.96.0.0/16"], None)]
#[case("1.32", Some(true), &["10.96.0.0/16"], Some("ip daddr 10.96.0.0/16 drop"))]
#[case("1.33.2", None, &["10.96.0.0/16", "fd00:96::/112"], Some("ip daddr 10.96.0.0/16 drop"))]
#[case("1.33.2", Some(false), &["10.96.0.0/16"], None)]
#[case("1.34.1", Some(false), &["10.100.0.0/16", "10.96.0.0/16"], Some("ip daddr { 10.96.0.0/16, 10.100.0.0/16 } drop"))]
#[case("1.36.2", None, &["10.97.0.0/16", "10.96.0.0/16"], Some("ip daddr { 10.96.0.0/15 } drop"))]
#[case("1.36.2", None, &["fd00:96::/112"], None)]
#[case("1.36.2", None, &[], None)]
fn unallocated_cluster_ips_are_dropped(
    #[case] version: &str,
    #[case] gate: Option<bool>,
    #[case] ranges: &[&str],
    #[case] drop: Option<&str>,
) {
    let mut cluster = cluster("clusterip-three-endpoints", version);
    cluster.proxy.feature_gates.extend(gate.map(|on| ("MultiCIDRServiceAllocator".to_owned(), on)));
    cluster.service_cidrs = ranges.iter().map(|range| range.parse().unwrap()).collect();
    let table = table(&cluster);
    let drop = drop.map(|drop| format!("{drop} comment \"Drop traffic to unallocated ClusterIPs\""));
    let reject = "ip daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"".to_owned();
    assert_eq!(block(&table, "chain cluster-ips-check").unwrap(), Vec::from_iter([reject].into_iter().chain(drop)));
}

#[test]
fn a_long_comment_is_cut_off_later() {
    let table = table(&cluster("long-names", "1.37"));
    let comments = table.split(" comment \"").skip(1).filter_map(|text| text.split('"').next());
    assert_eq!(comments.map(str::len).max(), Some(128));
}

#[rstest]
fn the_order_of_objects_does_not_matter(#[values("1.30", "1.37")] version: &str) {
    each_file(&["tests/golden/*/v1.30-nftables/nft-ruleset.txt"], |recording| {
        let name = recording.parent().and_then(Path::parent).and_then(Path::file_name).unwrap();
        assert_order_does_not_matter(&cluster(name.to_str().unwrap(), version));
    });
}

fn assert_order_does_not_matter(forward: &Cluster) {
    let mut backward = forward.clone();
    backward.services.reverse();
    backward.slices.reverse();
    backward.slices.iter_mut().for_each(|slice| slice.endpoints.reverse());
    for family in Family::ALL {
        let generate = |cluster: &Cluster| generate(cluster, &forward.nodes[0], family);
        assert_eq!(generate(forward), generate(&backward));
    }
}

#[rstest]
#[case("clusterip-sctp", "1.29", "kube-proxy 1.29: nftables mode is modelled from 1.30 on")]
#[case("clusterip-sctp", "1.99", "unknown kube-proxy version `1.99` (known: 1.10 to 1.37)")]
fn releases_without_the_mode(#[case] name: &str, #[case] version: &str, #[case] message: &str) {
    let mut cluster = cluster(name, "1.30");
    cluster.proxy.version = version.to_owned();
    let error = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_start_of_interface_names_fails() {
    let mut cluster = cluster("clusterip-sctp", "1.30");
    cluster.proxy.detect_local = DetectLocal::InterfaceNamePrefix("cali".to_owned());
    let error = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap_err();
    let message = "kube-proxy 1.30 fails to sync: it writes `iif cali*`, but `iif` does not accept a name prefix";
    assert_eq!(error.to_string(), message);
}

#[test]
fn two_services_at_one_address_collide() {
    let mut cluster = cluster("external-ips", "1.30");
    let mut other = cluster.services.iter().find(|service| !service.external_ips.is_empty()).unwrap().clone();
    let slices: Vec<_> = cluster.slices_of(&other.name).cloned().collect();
    other.name.name = "other".to_owned();
    other.cluster_ips = vec!["10.96.0.99".parse().unwrap()];
    for mut slice in slices {
        slice.name.name = "other-slice".to_owned();
        slice.service = other.name.clone();
        cluster.slices.push(slice);
    }
    cluster.services.push(other);
    let error = generate(&cluster, &cluster.nodes[0], Family::Ipv4).unwrap_err().to_string();
    assert!(error.ends_with(" are both reached at 198.51.100.7 . tcp . 80"), "{error}");
}
