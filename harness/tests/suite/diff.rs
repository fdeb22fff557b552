//! `svclab diff`, as a user calls it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rstest::rstest;
use serde_json::Value;

/// A cluster of two nodes, one with a second address, and a service with a node port.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: worker1}
spec: {podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}, {type: ExternalIP, address: 192.0.2.7}]}
---
apiVersion: v1
kind: Node
metadata: {name: worker2}
spec: {podCIDRs: [10.244.2.0/24]}
status: {addresses: [{type: InternalIP, address: 172.18.0.3}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4]
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.1.5], nodeName: worker1, conditions: {ready: true}}
- {addresses: [10.244.2.5], nodeName: worker2, conditions: {ready: true}}
"#;

/// `svclab --quiet diff - ...` with objects on standard input.
fn diff(objects: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(["diff", "-"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(objects.as_bytes()).expect("svclab reads");
    child.wait_with_output().expect("svclab ends")
}

/// The result in JSON.
fn found(objects: &str, arguments: &[&str]) -> Value {
    let output = diff(objects, &[arguments, &["--format", "json"]].concat());
    let written: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    written["result"].clone()
}

fn ids(found: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        found["changes"].as_array().expect("changes").iter().map(|one| one["id"].as_str().expect("an id")).collect();
    ids.sort_unstable();
    ids
}

const DOCUMENTED: [&str; 7] = [
    "nftables-invalid-packets",
    "nftables-no-firewall-holes",
    "nftables-no-node-ports-at-loopback",
    "nftables-no-route-localnet",
    "nftables-node-ports-at-primary-address",
    "nftables-unallocated-cluster-ips",
    "nftables-unused-ports",
];

#[rstest]
#[case::to_nftables("1.27:iptables", "1.33:nftables")]
#[case::to_iptables("1.33:nftables", "1.33:iptables")]
fn the_documented_differences_of_nftables_mode_are_found(#[case] before: &str, #[case] after: &str) {
    let found = found(OBJECTS, &["--before", before, "--after", after]);
    assert_eq!(ids(&found), DOCUMENTED);
    assert!(found["changes"].as_array().unwrap().iter().all(|change| change["known"]["document"].is_string()));
    assert!(found["classes"].as_u64().unwrap() > 100);
}

#[test]
fn between_releases_that_treat_packets_alike_nothing_changes() {
    let output = diff(OBJECTS, &["--before", "1.34:nftables", "--after", "1.35"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1.34, nftables mode → 1.35, nftables mode") && text.contains("nothing changes: "), "{text}");
}

/// Endpoints that terminate serve from 1.26 on, where no others are left.
#[test]
fn a_change_is_attributed_to_its_release() {
    let objects =
        OBJECTS.replace("conditions: {ready: true}", "conditions: {ready: false, serving: true, terminating: true}");
    let found = found(&objects, &["--before", "1.20", "--after", "1.30"]);
    let changes = found["changes"].as_array().unwrap();
    let change = changes.iter().find(|change| change["target"] == "cluster-ip").expect("a change");
    assert_eq!(change["was"], "rejected with ICMP port unreachable");
    assert_eq!(change["since"], "1.26");
    assert_eq!(change["services"], serde_json::json!(["default/web"]));
}

#[test]
fn a_change_of_objects_is_a_change_of_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let after = folder.path().join("after.yaml");
    let other = OBJECTS
        .replace("nodeName: worker2, conditions: {ready: true}", "nodeName: worker2, conditions: {ready: false}");
    std::fs::write(&after, other).expect("a file");
    let found = found(OBJECTS, &[after.to_str().expect("UTF-8")]);
    let ids = ids(&found);
    assert!(
        ids.iter().any(|id| id.starts_with("cluster-ip/")) && ids.iter().all(|id| !id.starts_with("nftables")),
        "{ids:?}"
    );
}

#[test]
fn accepted_changes_do_not_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("accepted.yaml");
    let entries: String = DOCUMENTED.iter().map(|id| format!("- change: {id}\n  reason: planned\n")).collect();
    let options = |file: &str| ["--before", "1.27", "--after", "1.33:nftables", "--accept", file].map(str::to_owned);
    let name = file.to_str().expect("UTF-8");
    for (text, code) in [(format!("accepted:\n{entries}"), 0), ("accepted:\n- change: other\n".to_owned(), 1)] {
        std::fs::write(&file, text).expect("a file");
        let output = diff(OBJECTS, &options(name).each_ref().map(String::as_str));
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stdout));
    }
    std::fs::write(&file, "accepted: 7\n").expect("a file");
    let output = diff(OBJECTS, &options(name).each_ref().map(String::as_str));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("help: Write `accepted:`"));
}

#[rstest]
#[case::nothing(&[], "there is nothing to compare with")]
#[case::release(&["--after", "1.99"], "unknown kube-proxy version `1.99`")]
#[case::mode(&["--after", "1.33:ipvs"], "`ipvs` is not a valid mode")]
#[case::no_such_mode(&["--after", "1.20:nftables"], "1.20")]
#[case::other_cluster(&["../scenarios/seeds/000-foo-three-replicas.yaml"], "nothing in common")]
fn bad_input_is_refused(#[case] arguments: &[&str], #[case] message: &str) {
    let output = diff(OBJECTS, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message), "{text}");
}

#[test]
fn markdown_is_a_table() {
    let output = diff(OBJECTS, &["--before", "1.27", "--after", "1.33:nftables", "--format", "markdown"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("### Service traffic: 1.27, iptables mode → 1.33, nftables mode\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 2 + DOCUMENTED.len(), "{text}");
}
