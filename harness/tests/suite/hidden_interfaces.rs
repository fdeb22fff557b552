//! What `verify` makes of rules whose interfaces `iptables -L` does not show, and how it names flows.

use std::path::Path;
use std::process::Command;

use rstest::rstest;

/// The output of a command for an input, and its exit code.
fn outcome(arguments: &[&str], input: &Path) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).arg(input).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    // Long lines are wrapped.
    (text.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code())
}

fn verified(text: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, text).unwrap();
    outcome(&["verify", "-v"], &file)
}

/// A listing with a row before those of kube-proxy in FORWARD, and one after them.
fn listing(policy: &str, [first, last]: [&str; 2], extra: &str) -> String {
    let columns = "target prot opt source destination";
    format!(
        "Chain FORWARD (policy {policy})\n{columns}\n{first}\
         KUBE-FORWARD all -- anywhere anywhere /* kubernetes forwarding rules */\n\
         KUBE-SERVICES all -- anywhere anywhere ctstate NEW /* kubernetes service portals */\n{last}\n\
         {extra}Chain KUBE-SERVICES (3 references)\n{columns}\n\
         REJECT tcp -- anywhere 10.43.52.119 /* default/nginx:http has no endpoints */ tcp dpt:http reject-with icmp-port-unreachable\n"
    )
}

const BARE: [&str; 3] =
    ["ACCEPT all -- anywhere anywhere\n", "DROP all -- anywhere anywhere\n", "RETURN all -- anywhere anywhere\n"];
const OF_DOCKER: &str = "Chain DOCKER-ISOLATION-STAGE-2 (1 references)\ntarget prot opt source destination\nDROP all -- anywhere anywhere\n\n";

/// A flow whose outcome depends on such a row is not verified: neither is the row blamed, nor does it excuse another rule.
#[rstest]
#[case::accept(&listing("ACCEPT", [BARE[0], ""], ""))]
#[case::drop(&listing("ACCEPT", [BARE[1], ""], ""))]
#[case::back(&listing("ACCEPT", [BARE[2], ""], ""))]
#[case::from_a_range(&listing("ACCEPT", ["DROP all -- 10.244.0.0/16 anywhere\n", ""], ""))]
#[case::accept_before_the_policy(&listing("DROP", [BARE[0], ""], ""))]
fn flows_that_depend_on_hidden_interfaces_are_not_verified(#[case] text: &str) {
    let (said, code) = verified(text);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("depends on the interfaces of a rule that the text does not show"), "{said}");
    assert!(said.contains("the interfaces of 1 rule of node node-1 are unknown"), "{said}");
    assert!(!said.contains("The rules break the promise"), "{said}");
}

/// Where nothing depends on them, the rest is verified, and a promise is broken for certain if it is whichever of them match.
#[rstest]
#[case::nothing_depends(&listing("ACCEPT", ["", BARE[0]], ""), None)]
#[case::jump(&listing("ACCEPT", ["DOCKER-ISOLATION-STAGE-2 all -- anywhere anywhere\n", ""], OF_DOCKER), None)]
#[case::both_ends(&listing("ACCEPT", ["DROP all -- 10.9.0.0/16 10.9.0.0/16\n", ""], ""), None)]
#[case::shown(
    "Chain FORWARD (policy ACCEPT 0 packets, 0 bytes)\n pkts bytes target prot opt in out source destination\n\
     0 0 ACCEPT all -- * * 0.0.0.0/0 0.0.0.0/0\n\
     0 0 KUBE-FORWARD all -- * * 0.0.0.0/0 0.0.0.0/0 /* kubernetes forwarding rules */\n\
     0 0 KUBE-SERVICES all -- * * 0.0.0.0/0 0.0.0.0/0 ctstate NEW /* kubernetes service portals */\n\n\
     Chain KUBE-SERVICES (3 references)\n pkts bytes target prot opt in out source destination\n\
     0 0 REJECT tcp -- * * 0.0.0.0/0 10.43.52.119 /* default/nginx:http has no endpoints */ tcp dpt:80 reject-with icmp-port-unreachable\n",
    Some("FORWARD filter -A FORWARD -j ACCEPT")
)]
#[case::whichever_match(&listing("DROP", [BARE[1], ""], ""), Some("policy of FORWARD"))]
fn other_flows_are_verified(#[case] text: &str, #[case] broken: Option<&str>) {
    let text = if broken == Some("policy of FORWARD") {
        text.replace("KUBE-SERVICES all", "OTHER all")
    } else {
        text.to_owned()
    };
    let (said, code) = verified(&text);
    assert_eq!(code, Some(i32::from(broken.is_some())), "{said}");
    assert!(!said.contains("depends on the interfaces"), "{said}");
    assert!(broken.is_none_or(|rule| said.contains(rule) && said.contains("The rules break the promise")), "{said}");
}

const CLUSTER: &str = "name: an endpoint outside of the pod range
cluster: {podCIDR: 10.244.0.0/16, proxy: {mode: iptables, version: \"1.32\", clusterCIDR: \"\"}}
nodes:
  - {name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}
pods:
  - {name: web, node: worker, ips: [10.244.9.80]}
  - {name: client, node: worker}
hosts:
  - {name: outside, ip: 203.0.113.10}
services:
  - {name: web, clusterIP: 10.96.0.80, ports: [{port: 80}]}
endpoints:
  - {service: web, pods: [web]}
tests:
  - {name: a test, probe: {from: pod/client, to: \"service/web:80\"}, expect: {delivered: \"pod/web:80\"}}
";

fn with_rule(rule: &str) -> String {
    format!("{CLUSTER}rules:\n  worker:\n    install: before\n    text: |\n      *filter\n      {rule}\n      COMMIT\n")
}

/// A host outside of the cluster has no address of a pod, and `explain` cannot send from an address that no host has.
#[test]
fn a_flow_from_an_address_of_no_host_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.yaml");
    std::fs::write(&file, CLUSTER).unwrap();
    let (said, code) = outcome(&["verify"], &file);
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(&file, with_rule("-I FORWARD 1 -s 192.0.2.77/32 -j DROP")).unwrap();
    let (said, code) = outcome(&["verify"], &file);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("(source 192.0.2.77) > "), "{said}");
    assert!(said.contains("no packet was sent: no host of the lab has the address 192.0.2.77"), "{said}");
    assert!(!said.contains("svclab explain"), "{said}");
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}/iptables-save.txt")).unwrap()
}

/// The table `nat` of saved rules as `iptables -L -n` lists it, or `iptables -L -n -v`.
fn listed(saved: &str, options: &str) -> String {
    let command = format!("iptables-nft-restore && iptables-nft -t nat -L -n {options}");
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", &command])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), saved.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// kube-proxy may recognise pods by their interface. A text that shows that there is none shows a rule that gets all packets.
#[rstest]
fn the_interface_of_pods_is_not_lost_where_it_is_not_listed(
    #[values("config-local-bridge/v1.25-iptables", "config-local-prefix/v1.25-iptables")] recording: &str,
) {
    let saved = golden(recording);
    let (said, code) = verified(&listed(&saved, ""));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("kube-proxy recognises pods by the interface cni0"), "{said}");
    let is_pod_traffic = |line: &&str| line.contains("pod traffic for");
    let lost: String = saved
        .lines()
        .map(|line| match Some(line).filter(is_pod_traffic).and_then(|line| line.split_once(" -i ")) {
            Some((start, rest)) => format!("{start}{}\n", &rest[rest.find(' ').unwrap()..]),
            None => format!("{line}\n"),
        })
        .collect();
    assert_ne!(lost, saved);
    let (said, code) = verified(&listed(&lost, "-v"));
    assert_eq!(code, Some(1), "{said}");
}
