//! Values that stand in for those that rules have lost.

use rstest::rstest;

use super::{failures, golden, grave, imported};
use crate::assumptions;

/// A load balancer whose rule in `KUBE-SERVICES` is lost keeps its chain, and gets an address that is made up.
#[rstest]
#[case::cluster("loadbalancer-cluster/v1.18")]
#[case::local("loadbalancer-local-healthcheck/v1.21")]
#[case::source_ranges("loadbalancer-source-ranges/v1.21")]
fn a_load_balancer_without_a_rule_that_leads_to_its_chain_is_lost(#[case] recording: &str) {
    let whole = golden(&format!("{recording}-iptables/iptables-save.txt"));
    let is_lost = |line: &&str| line.starts_with("-A KUBE-SERVICES ") && line.contains("-j KUBE-FW-");
    assert!(whole.lines().any(|line| is_lost(&line)));
    let text: String = whole.split_inclusive('\n').filter(|line| !is_lost(line)).collect();
    let found = grave(&text);
    let address = "198.51.100.254";
    let missing = format!("the frontend {address}:80/tcp is missing");
    assert!(found.iter().any(|words| words.contains(&missing) && words.contains("is made up")), "{found:?}");
    let assumed = imported(&text);
    assert!(assumptions(&assumed).iter().any(|words| words.contains(address)), "{}", assumptions(&assumed).join("\n"));
    assert_ne!(failures(&assumed), Vec::<String>::new());
    // The list of rules may be cut.
    let from = text.find("-A KUBE-SERVICES").expect("rules of KUBE-SERVICES");
    assert_eq!(failures(&imported(&text[..from])), Vec::<String>::new());
}

/// Kube-proxy 1.36 writes the chain of external IPs also where they are not allowed, without a rule that leads there.
#[test]
fn a_chain_of_external_ips_that_are_off_is_sound() {
    let text = golden("external-ips-off/v1.36-iptables/iptables-save.txt");
    assert_eq!(grave(&text), Vec::<String>::new());
    assert_eq!(failures(&imported(&text)), Vec::<String>::new());
}
