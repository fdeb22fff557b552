//! `svclab diff` on the command line.

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
    // Invalid arguments end it before it reads.
    let _ = child.stdin.take().expect("a pipe").write_all(objects.as_bytes());
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

const DOCUMENTED: [&str; 6] = [
    "nftables-invalid-packets",
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
    let notes: Vec<&Value> = found["notes"].as_array().unwrap().iter().collect();
    let codes: Vec<&str> = notes.iter().map(|note| note["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["rules", "sysctls", "firewall"]);
    // A firewall that no node has is not a change of this cluster.
    assert_eq!(notes[2]["known"]["code"], "nftables-no-firewall-holes");
    assert!(notes[1]["details"][0].as_str().unwrap().starts_with("net.ipv4.conf.all.route_localnet: before "));
}

#[test]
fn ports_that_kube_proxy_holds_are_a_note() {
    let found = found(OBJECTS, &["--before", "1.23", "--after", "1.24"]);
    assert!(found["notes"].as_array().unwrap().iter().any(|note| note["code"] == "held-ports"), "{found}");
}

#[test]
fn between_releases_that_treat_packets_alike_nothing_changes() {
    let output = diff(OBJECTS, &["--before", "1.34:nftables", "--after", "1.35"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("1.34, nftables mode → 1.35, nftables mode: no traffic changes")
            && text.contains("nothing changes: "),
        "{text}"
    );
}

/// Terminating endpoints serve from 1.26 on if no others are left.
#[test]
fn a_change_is_attributed_to_its_release() {
    let objects =
        OBJECTS.replace("conditions: {ready: true}", "conditions: {ready: false, serving: true, terminating: true}");
    let found = found(&objects, &["--before", "1.20", "--after", "1.30"]);
    let changes = found["changes"].as_array().unwrap();
    let change = changes.iter().find(|change| change["id"] == "1.26-terminating-endpoints").expect("a change");
    assert!(change["targets"].as_array().unwrap().iter().any(|target| target == "cluster-ip"));
    let all = change["outcomes"].as_array().unwrap();
    assert!(
        all.iter().all(
            |one| one["before"] == "rejected with ICMP port unreachable" || one["before"] == "lost on the underlay"
        )
    );
    assert_eq!(change["since"], "1.26");
    assert_eq!(change["services"], serde_json::json!(["default/web"]));
}

/// The result in JSON for the cluster that shows the changes of releases.
fn showcase_diff(arguments: &[&str]) -> Value {
    let showcase = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/manifests/showcase.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = command.args(["diff", showcase, "--format", "json"]).args(arguments).output().expect("svclab starts");
    let written: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    written["result"].clone()
}

/// internalTrafficPolicy counts from 1.22 on; 1.24 and 1.25 change the outcome of packets that it loses again.
#[test]
fn a_change_is_attributed_to_the_first_release_that_brings_it() {
    let found = showcase_diff(&["--before", "1.21", "--after", "1.30"]);
    let changes = found["changes"].as_array().expect("changes");
    let of_policy: Vec<&Value> = changes
        .iter()
        .filter(|change| {
            let services = change["services"].as_array().expect("services");
            services.iter().any(|name| name == "default/internal-local") && change["targets"][0] == "cluster-ip"
        })
        .collect();
    let ids: Vec<&Value> = of_policy.iter().map(|change| &change["id"]).collect();
    assert_eq!(ids, ["1.22-internal-traffic-policy"], "{found}");
    let then: Vec<&Value> =
        of_policy[0]["laterChanges"].as_array().expect("steps").iter().map(|again| &again["since"]).collect();
    assert_eq!(then, ["1.24", "1.25"], "{found}");
}

/// A row reports lost packets, and counts only those; clients come before processes of nodes.
#[test]
fn changes_are_in_the_order_of_who_loses_what() {
    let found = showcase_diff(&["--before", "1.27", "--after", "1.33:nftables"]);
    let changes = found["changes"].as_array().expect("changes");
    assert_eq!(changes[0]["id"], "nftables-node-ports-at-primary-address", "{found}");
    let outcomes = changes.iter().map(|change| &change["outcomes"][0]);
    let is_lost = |one: &Value| {
        one["before"].as_str().unwrap().starts_with("delivered")
            && !one["after"].as_str().unwrap().starts_with("delivered")
    };
    let lost: Vec<bool> = outcomes.map(is_lost).collect();
    assert!(lost.is_sorted_by(|one, next| one >= next), "{found}");
}

/// From 1.30 on, an address with `ipMode: Proxy` is left to the load balancer.
#[test]
fn a_single_change_is_counted_in_words() {
    let objects = OBJECTS.replace("type: NodePort", "type: LoadBalancer").replace(
        "nodePort: 30080, protocol: TCP}]",
        "nodePort: 30080, protocol: TCP}]\nstatus: {loadBalancer: {ingress: [{ip: 203.0.113.80, ipMode: Proxy}]}}",
    );
    let output = diff(&objects, &["--before", "1.29", "--after", "1.30"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().next().is_some_and(|line| line.ends_with(": 1 change, which loses packets")), "{text}");
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
#[case::neither(&["--after", "banana"], "(known: 1.10 to 1.37), and not a mode (`iptables` or `nftables`)")]
#[case::other_cluster(
    &["../scenarios/seeds/000-foo-three-replicas.yaml"],
    "no node in common, by name and address: standard input has worker1 (172.18.0.2, 192.0.2.7), worker2 (172.18.0.3)"
)]
#[case::reversed(&["--before", "1.33", "--after", "1.27", "--each-release"], "and 1.33 is newer than 1.27")]
#[case::no_range(&["--before", "1.33", "--after", "1.33", "--each-release"], "both sides are 1.33, with the same mode")]
fn bad_input_is_rejected(#[case] arguments: &[&str], #[case] message: &str) {
    let output = diff(OBJECTS, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message), "{text}");
}

#[test]
fn markdown_is_a_table_with_examples() {
    let output = diff(OBJECTS, &["--before", "1.27", "--after", "1.33:nftables", "--format", "markdown"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("### Service traffic: 1.27, iptables mode → 1.33, nftables mode\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 2 + DOCUMENTED.len(), "{text}");
    assert!(text.contains("<details><summary>one packet of each change</summary>"), "{text}");
}

/// A minor release with two variants: 1.33.6 has different nftables rules from earlier patches.
#[test]
fn each_release_is_compared_with_the_next() {
    let found = found(OBJECTS, &["--before", "1.32:nftables", "--after", "1.34", "--each-release"]);
    let steps = found["steps"].as_array().expect("steps");
    let sides: Vec<[&str; 2]> =
        steps.iter().map(|step| ["before", "after"].map(|side| step["diff"][side].as_str().expect("words"))).collect();
    let versions = ["1.32", "1.33.5", "1.33.6", "1.34.1", "1.34.2"].map(|version| format!("{version}, nftables mode"));
    let expected: Vec<[&str; 2]> = versions.windows(2).map(|pair| [pair[0].as_str(), &pair[1]]).collect();
    assert_eq!(sides, expected);
    assert_eq!(steps[1]["name"], "1.33.6");
    assert_eq!(found["accepted"], steps.iter().all(|step| step["diff"]["accepted"] == true));
}

/// The difference is reported if the outcome is the same.
#[test]
fn fewer_endpoints_are_a_change_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let after = folder.path().join("after.yaml");
    let other = OBJECTS
        .replace("nodeName: worker2, conditions: {ready: true}", "nodeName: worker2, conditions: {ready: false}");
    std::fs::write(&after, other).expect("a file");
    let found = found(OBJECTS, &[after.to_str().expect("UTF-8")]);
    let outcomes =
        found["changes"].as_array().unwrap().iter().flat_map(|change| change["outcomes"].as_array().unwrap());
    let fewer: Vec<&Value> = outcomes.filter(|one| one["differs"] == serde_json::json!(["fewer-endpoints"])).collect();
    let is_said = |one: &&Value| one["after"].as_str().unwrap().ends_with(", with fewer endpoints");
    assert!(!fewer.is_empty() && fewer.iter().all(is_said), "{found}");
}

/// Examples are packets that a user would send: `127.0.0.1`, not the address of a network.
#[test]
fn examples_are_sent_to_addresses_of_hosts() {
    let found = found(OBJECTS, &["--before", "1.27", "--after", "1.33:nftables"]);
    let at_loopback = |change: &&Value| change["id"] == "nftables-no-node-ports-at-loopback";
    let change = found["changes"].as_array().unwrap().iter().find(at_loopback).expect("a change");
    assert_eq!(change["example"]["to"], "127.0.0.1:30080");
}

/// A field of the service is changed or taken away.
#[rstest]
#[case::shorter("timeoutSeconds: 10800", "timeoutSeconds: 600", "go to the endpoint of the first for 600 s")]
#[case::none(
    "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}\n",
    "",
    "each goes to any endpoint"
)]
fn later_connections_of_a_client_are_compared(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let sticky = "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}\n  ports: [{name: http";
    let objects = OBJECTS.replace("  ports: [{name: http, port: 80,", &format!("{sticky}, port: 80,"));
    let folder = tempfile::tempdir().expect("a folder");
    let after = folder.path().join("after.yaml");
    std::fs::write(&after, objects.replace(from, to)).expect("a file");
    let found = found(&objects, &[after.to_str().expect("UTF-8")]);
    let changes = found["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{found}");
    assert_eq!(changes[0]["targets"], serde_json::json!(["session-affinity"]));
    assert_eq!(changes[0]["outcomes"][0]["before"], "go to the endpoint of the first for 10800 s");
    assert_eq!(changes[0]["outcomes"][0]["after"], expected);
}

/// A scenario with rules of its own on the node of its endpoint.
fn with_rules(rules: &str) -> String {
    let rules: String = rules.lines().map(|line| format!("      {line}\n")).collect();
    let rules = format!(
        "rules:\n  worker2:\n    install: before\n    text: |\n      *filter\n      :INPUT ACCEPT [0:0]\n      :FORWARD ACCEPT [0:0]\n      :OUTPUT ACCEPT [0:0]\n{rules}      COMMIT\n"
    );
    format!("{SCENARIO}{rules}")
}

const SCENARIO: &str = "name: one service
cluster: {podCIDR: 10.244.0.0/16}
nodes:
  - {name: worker, ip: 172.18.0.2}
  - {name: worker2, ip: 172.18.0.3}
pods:
  - {name: client, node: worker}
  - {name: web, node: worker2}
services:
  - {name: web, ports: [{port: 80, targetPort: 8080}]}
endpoints:
  - {service: web, pods: [web]}
";

/// Compares the scenario without rules with the one that has some.
fn against_rules(rules: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let after = folder.path().join("after.yaml");
    std::fs::write(&after, with_rules(rules)).expect("a file");
    diff(SCENARIO, &[&[after.to_str().expect("UTF-8")], arguments].concat())
}

#[rstest]
#[case::all_segments("-A FORWARD -p tcp -m tcp --dport 8080 -j DROP", true)]
#[case::first_segments("-A FORWARD -p tcp -m tcp --dport 8080 -m conntrack --ctstate NEW -j DROP", false)]
fn connections_that_new_rules_break_are_a_change(#[case] rule: &str, #[case] breaks: bool) {
    let output = against_rules(rule, &["--format", "json"]);
    let written: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let broken = |change: &&Value| change["targets"][0] == "open-connections";
    let broken = written["result"]["changes"].as_array().unwrap().iter().find(broken);
    assert_eq!(broken.is_some(), breaks, "{written}");
    if let Some(broken) = broken {
        assert_eq!(
            broken["outcomes"][0],
            serde_json::json!({"before": "go on", "after": "dropped on the node", "differs": [], "classes": broken["classes"]})
        );
    }
}

/// Rules that every packet passes, with more than a million combinations.
fn many_classes() -> String {
    let mut rules = Vec::new();
    for number in 0..120 {
        let mark = format!("-j MARK --set-xmark 0x{:x}/0x{:x}", 1 << (number % 30), 1 << (number % 30));
        rules.push(format!("-A FORWARD -s 10.{number}.0.0/16 {mark}"));
        rules.push(format!("-A FORWARD -p tcp -m tcp --dport {} {mark}", 100 + number * 100));
        rules.push(format!("-A FORWARD -p tcp -m tcp --sport {} {mark}", 100 + number * 100));
    }
    rules.join("\n")
}

#[test]
fn the_limit_of_classes_is_reported_within_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after] = ["before.yaml", "after.yaml"].map(|name| folder.path().join(name));
    std::fs::write(&before, SCENARIO).expect("a file");
    std::fs::write(&after, with_rules(&many_classes())).expect("a file");
    // 1 GB of address space, most of which is reserved by stacks and arenas of threads.
    let call = r#"ulimit -v 1000000; exec "$0" --quiet diff "$1" "$2" --max-classes 500"#;
    let mut command = Command::new("sh");
    command.args(["-c", call, env!("CARGO_BIN_EXE_svclab")]).args([&before, &after]);
    let output = command.output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("incomplete: only ") && text.contains("(--max-classes reached)"), "{text}");
}

#[test]
fn rules_that_are_not_modelled_are_named() {
    let output = against_rules("-A FORWARD -m u32 --u32 \"6&0xFF=6\" -j DROP", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("unknown for ") && text.contains("u32"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn changes_are_shown_on_the_kernel() {
    let found = found(OBJECTS, &["--before", "1.27", "--after", "1.33:nftables", "--live"]);
    let changes = found["changes"].as_array().unwrap();
    let live: Vec<&Value> = changes.iter().map(|change| &change["live"]).filter(|live| !live.is_null()).collect();
    assert_eq!(live.len(), DOCUMENTED.len(), "{found}");
    assert!(live.iter().all(|live| live["isPredicted"] == true && live["before"] != live["after"]), "{found}");
    // A segment without a connection, from a pod or a host.
    let invalid = changes.iter().find(|change| change["id"] == "nftables-invalid-packets").expect("a change");
    assert_eq!(invalid["example"]["tcpFlags"], "S.");
}

/// If a lab sends no packet, or the kernel shows no difference, the reason is reported.
#[test]
fn what_the_kernel_does_not_show_is_explained() {
    let sticky = "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}\n  ports: [{name: http";
    let objects = OBJECTS.replace("  ports: [{name: http, port: 80,", &format!("{sticky}, port: 80,"));
    let folder = tempfile::tempdir().expect("a folder");
    let after = folder.path().join("after.yaml");
    std::fs::write(&after, objects.replace("timeoutSeconds: 10800", "timeoutSeconds: 600")).expect("a file");
    let found = found(&objects, &[after.to_str().expect("UTF-8"), "--live"]);
    assert_eq!(found["changes"][0]["live"], Value::Null);
    assert_eq!(found["changes"][0]["notSent"], "a first packet does not show this change");
}

#[rstest]
#[case::junit("junit", "<testcase name=\"nftables-node-ports-at-primary-address (")]
#[case::tap("tap", "not ok 1 - ")]
#[case::html("html", "nftables-node-ports-at-primary-address")]
fn reports_have_a_test_for_each_change(#[case] kind: &str, #[case] expected: &str) {
    let report = format!("{kind}=-");
    let output = diff(OBJECTS, &["--before", "1.27", "--after", "1.33:nftables", "--report", &report]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(expected), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

/// Rows of scenarios/RELEASES.md; `ci/releases --check` compares all of them.
#[rstest]
#[case::policies(&["--before", "1.24:iptables", "--after", "1.25:iptables"])]
#[case::node_hints(&["--before", "1.33:nftables", "--after", "1.34.1:nftables"])]
#[case::modes(&["--before", "1.36:iptables", "--after", "1.36:nftables"])]
fn the_page_of_releases_is_up_to_date(#[case] arguments: &[&str]) {
    let showcase = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/manifests/showcase.yaml");
    let page = include_str!("../../../scenarios/RELEASES.md");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(["--quiet", "diff", showcase, "--each-release", "--format", "markdown"]).args(arguments);
    let output = command.output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().last().expect("a row");
    assert!(
        row.starts_with("| **") && page.contains(row),
        "scenarios/RELEASES.md is not what ci/releases prints: {row}"
    );
}
