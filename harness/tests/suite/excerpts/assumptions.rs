//! The assumptions about a cluster that a text shows partially.

use rstest::rstest;
use svclab::verify::{Options, verify};

use super::{NODES, failures, filtered, imported, saved, without};
use crate::assumptions;

/// If no rule names the range of pods, one is assumed.
#[test]
fn a_range_of_pods_that_is_not_shown_is_assumed() {
    let left = filtered("grep -E 'KUBE-(SEP|SERVICES)' | grep -v '! -s'", &saved());
    let assumed = imported(&format!("$ iptables-save | grep -E 'KUBE-(SEP|SERVICES)' | grep -v '! -s'\n{left}"));
    assert_eq!(assumed.scenario.cluster.proxy.cluster_cidrs.len(), 1);
    assert!(
        assumptions(&assumed).iter().any(|words| words.starts_with("clusterCIDR 10.244.0.0/16, from the pod ranges"))
    );
    assert_eq!(failures(&assumed), Vec::<String>::new());
}

/// A release named in the text decides between releases that write the same rules; another one is a contradiction.
#[rstest]
#[case::nodes(&NODES.replace("v1.30.2", "v1.29.3"), "1.29.3", false)]
#[case::sentence("Kubernetes version: v1.28.2", "1.28.2", false)]
#[case::command("$ kubectl version\nClient Version: v1.20.0\nServer Version: v1.27.1\n", "1.27.1", false)]
#[case::other_rules("Server Version: v1.18.2", "1.37", true)]
fn the_release_is_that_which_the_text_names(#[case] text: &str, #[case] version: &str, #[case] contradicts: bool) {
    let assumed = imported(&format!("{}\n\n{text}\n", saved()));
    assert_eq!(assumed.scenario.cluster.proxy.version, version, "{:#?}", assumptions(&assumed));
    assert_eq!(assumptions(&assumed).iter().any(|words| words.starts_with("contradiction: Kubernetes")), contradicts);
}

/// An endpoint that occurs only in the chain of policy Local, while others are ready, is terminating.
#[rstest]
fn an_endpoint_for_policy_local_alone_is_terminating(
    #[values("v1.32-iptables/iptables-save", "v1.30-iptables/iptables-save", "v1.34-nftables/nft-ruleset")] rules: &str,
) {
    let path = format!("../rules/tests/golden/terminating-local/{rules}.txt");
    let assumed = imported(&std::fs::read_to_string(&path).expect("a recording"));
    assert_eq!(failures(&assumed), Vec::<String>::new());
    let endpoints = || assumed.scenario.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
    assert!(endpoints().any(|endpoint| endpoint.terminating && endpoint.serving == Some(true) && !endpoint.ready));
    assert!(endpoints().any(|endpoint| endpoint.ready));
    assert!(
        assumptions(&assumed).iter().any(|words| words.contains("is terminating: only the chain for policy Local"))
    );
}

/// A chain alone is enough to recognise a service; invented properties of the service are reported and do not fail.
#[rstest]
fn a_service_is_named_by_the_comments_of_its_endpoints(
    #[values("", "$ iptables-save | grep KUBE-SVC\n")] command: &str,
) {
    let rule = "-A KUBE-SVC-U4Z5SFS3OMOF34V4 -m comment --comment \
        \"default/internal-local-node-port:main -> 10.244.1.10:8080\" -j KUBE-SEP-YXTHN57ORYGMADGK\n";
    let assumed = imported(&format!("{command}{rule}"));
    let service = &assumed.scenario.cluster.services[0];
    assert_eq!(service.name.to_string(), "default/internal-local-node-port");
    let said = format!("default/internal-local-node-port (cluster IP {}, port 8080)", service.cluster_ips[0]);
    assert!(assumptions(&assumed).iter().any(|words| words.contains(&said)), "{:#?}", assumptions(&assumed));
    assert_eq!(failures(&assumed), Vec::<String>::new());
}

/// Shares in an excerpt that no number of hidden endpoints can explain are a defect.
#[rstest]
#[case::hidden("0.33333333349", false)]
#[case::wrong("0.40000000037", true)]
fn shares_of_hidden_endpoints_are_no_failure(#[case] share: &str, #[case] is_found: bool) {
    let saved = saved().replace(
        "shop/backend:http -> 10.244.1.30:8080\" -m statistic --mode random --probability 0.50000000000",
        &format!("shop/backend:http -> 10.244.1.30:8080\" -m statistic --mode random --probability {share}"),
    );
    let lines = filtered("grep 10.244.1", &saved);
    assert!(lines.contains(share), "{lines}");
    let assumed = imported(&format!("$ iptables-save | grep 10.244.1\n{lines}"));
    assert_eq!(!failures(&assumed).is_empty(), is_found, "{}", assumptions(&assumed).join("\n"));
}

/// For uneven shares, the example is the failing connection, with the rules that it passes.
#[test]
fn the_example_comes_through_the_chain_that_lacks_a_rule() {
    let lost = without(&saved(), |line| line.contains("--to-destination 10.244.1.30:8080"));
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(&[imported(&lost).scenario], &options, &|_| {}).remove(0);
    let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    let uneven = verification
        .failures(&options)
        .find(|finding| finding.what.contains("do not get their promised shares"))
        .unwrap();
    let rules = &uneven.example.rules;
    assert!(
        rules.iter().any(|rule| rule.contains("-> 10.244.1.30:8080") && rule.contains("-j KUBE-SEP-")),
        "{rules:#?}"
    );
    let page = svclab::verify::page(&verified, &options, svclab::page::Settings::default());
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}: {page}"));
    assert!(at("the DNAT to endpoint 10.244.1.30:8080 is missing") < at("for example"), "{page}");
}
