//! Saved rules by themselves: what is assumed around the recordings of real kube-proxies.
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;
use svclab::scenario;

/// What is assumed of a file.
fn assumed(file: &Path) -> Result<Vec<String>, String> {
    let text = scenario::read_file(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    scenario::of_rules(&text, file).map(|assumed| assumed.assumptions).map_err(|mistakes| mistakes.to_string())
}

/// For the objects that are read from a recording, svclab writes the recording again. Left out is what rules do not tell: endpoints that
/// serve policy Local and not Cluster (topology hints, or terminating ones), that no node port is served but on loopback addresses, for
/// which a lost rule is the likelier reason, and the node's own address, by which some releases write source ranges; of 1.36,
/// external IPs that a gate switches off, and in nftables mode that a service's only range of endpoints is on another node, which
/// only a missing element of `hairpin-connections` says.
#[rstest]
fn the_same_rules_are_written_for_what_is_assumed(
    #[files("../rules/tests/golden/*/v*/*-save.txt")]
    #[files("../rules/tests/golden/*/v*/nft-ruleset.txt")]
    #[exclude(
        "/(terminating-local|topology-hints-external-local|config-nodeport-addresses-loopback)/|loadbalancer-source-ranges|/external-ips-off/v1.36|/(clusterip-one-endpoint|ip-families-empty)/v1.36-nftables/"
    )]
    file: PathBuf,
) {
    match assumed(&file) {
        Ok(told) => assert!(told.iter().any(|words| words.contains("which writes the same rules")), "{told:#?}"),
        Err(mistakes) => assert!(mistakes.contains("no rule is about a Service"), "{mistakes}"),
    }
}

/// What no scenario can be made of is refused with its place and the way out.
#[rstest]
#[case::no_service(
    "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n",
    "no rule is about a Service",
    "on which kube-proxy runs"
)]
#[case::part("-A KUBE-SVC-X -j KUBE-SEP-Y\n", "some rules of a table", "svclab cascade")]
#[case::listing(
    "Chain KUBE-SVC-FOO (1 references)\ntarget prot opt source destination\n",
    "iptables -L",
    "iptables-save"
)]
#[case::of_iptables_nft("table ip nat {\n}\n", "one of iptables-nft", "Save them with iptables-save")]
#[case::without_nat(
    "*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n",
    "the table `nat` is missing",
    "all that `iptables-save`"
)]
#[case::twice(
    "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n*nat\nCOMMIT\n",
    "table `nat` stands here twice",
    "as iptables-save writes it"
)]
#[case::broken("*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES --dport\nCOMMIT\n", ":3:", "as iptables-save writes it")]
#[case::of_both_families(
    "*nat\n:K - [0:0]\n-A K -d 10.96.0.1/32 -j RETURN\nCOMMIT\n*nat\n:K - [0:0]\n-A K -d fd00::1/128 -j RETURN\nCOMMIT\n",
    "rules.txt:5:1: rules of IPv6 begin here",
    "in a file of their own"
)]
fn what_shows_no_service_is_refused(#[case] text: &str, #[case] message: &str, #[case] help: &str) {
    let refused = scenario::of_rules(text, Path::new("rules.txt")).map(|assumed| assumed.assumptions);
    let mistakes = refused.map_err(|mistakes| mistakes.to_string()).expect_err("nothing can be assumed");
    assert!(mistakes.contains("rules.txt:") && mistakes.contains(message) && mistakes.contains(help), "{mistakes}");
}

/// The command says what it assumes before it says what came of it.
#[test]
fn a_file_of_rules_is_verified_by_itself() {
    let file = "../rules/tests/golden/nodeport-local/v1.25-iptables/iptables-save.txt";
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["verify", file]).output().expect("svclab starts");
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("assumed: kube-proxy 1.26, which writes the same rules"), "{told}");
    assert!(told.contains("assumed: nodes: node-1 (pods in 10.244.1.0/24)"), "{told}");
    assert_eq!(output.status.code(), Some(0), "{text}{told}");
}
