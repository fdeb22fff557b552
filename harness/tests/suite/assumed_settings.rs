//! Settings of kube-proxy that explain why rules are missing: every command names them.

use std::path::Path;
use std::process::Command;

use rstest::rstest;

/// The output of a command for rules, and its exit code.
fn outcome(arguments: &[&str], rules: &str) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.txt");
    std::fs::write(&file, rules).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).arg(file).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    // Long lines are wrapped.
    (text.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code())
}

#[rstest]
#[case::node_ports(
    "nodeport-local/v1.36-nftables/nft-ruleset.txt",
    "elements = { 192.168.10.11 }",
    "nodePortAddresses: no rule serves node ports"
)]
#[case::local_sources(
    "clusterip-three-endpoints/v1.36-nftables/nft-ruleset.txt",
    "ip saddr != 10.244.0.0/16",
    "no clusterCIDR: no rule masquerades"
)]
#[case::invalid(
    "nodeport-local/v1.30-iptables/iptables-save.txt",
    "--ctstate INVALID",
    "conntrack.tcpBeLiberal: no rule drops packets"
)]
fn a_setting_that_explains_a_missing_rule_is_named(#[case] file: &str, #[case] missing: &str, #[case] named: &str) {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden").join(file);
    let saved = std::fs::read_to_string(recording).unwrap();
    assert!(saved.contains(missing));
    let without: String =
        saved.lines().filter(|line| !line.contains(missing)).map(|line| format!("{line}\n")).collect();
    for arguments in [&["verify", "--no-lab"][..], &["dump", "lint"]] {
        let (said, code) = outcome(arguments, &without);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
        let (said, _) = outcome(arguments, &saved);
        assert!(!said.contains(named), "{arguments:?}: {said}");
    }
}

/// Where kube-proxy serves node ports on no address, iptables has no rule that leads to them. Without this setting it has one.
#[rstest]
#[case::whole("config-nodeport-addresses-loopback/v1.30-iptables", false, false)]
#[case::whole_of_new("config-nodeport-addresses-loopback/v1.32-iptables", false, false)]
#[case::nat_alone("config-nodeport-addresses-loopback/v1.32-iptables", true, false)]
#[case::lost("nodeport-cluster/v1.32-iptables", false, true)]
fn no_rule_leads_to_node_ports_that_are_not_served(
    #[case] recording: &str,
    #[case] is_nat_alone: bool,
    #[case] is_lost: bool,
) {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden").join(recording);
    let saved = std::fs::read_to_string(recording.join("iptables-save.txt")).unwrap();
    let start = if is_nat_alone { saved.find("*nat").unwrap() } else { 0 };
    let is_kept = |line: &&str| !line.starts_with("-A KUBE-SERVICES ") || !line.ends_with("-j KUBE-NODEPORTS");
    let text: String = saved[start..].lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    assert_eq!(text != saved[start..], is_lost);
    for arguments in [&["verify", "--no-lab"][..], &["dump", "lint"]] {
        let (said, code) = outcome(arguments, &text);
        assert_eq!(code, Some(i32::from(is_lost)), "{arguments:?}: {said}");
        assert_eq!(said.contains("nodePortAddresses: no rule serves node ports"), !is_lost, "{arguments:?}: {said}");
    }
}
