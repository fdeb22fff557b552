//! Mutations of rules: `svclab verify` detects every one that changes a flow.

use std::path::Path;

use rstest::rstest;
use serde_json::Value;
use svclab::mutate::{Detail, MutantStatus, Options, json, mutate, page, summary};
use svclab::page::Settings;
use svclab::verify::verify;
use svclab::{infer, input, scenario, testing};

#[rstest]
#[case::cluster_ip("cluster-ip/other-node.yaml")]
#[case::node_port("node-port/from-inside.yaml")]
#[case::chance("distribution/three.yaml")]
#[case::both_families("dual-stack/both-families.yaml")]
#[case::balance("distribution/seven.yaml")]
#[case::rejected("no-endpoints/reject.yaml")]
#[case::known_fault("releases/1.23-internal-policy.yaml")]
#[case::nftables("nftables/policy-local.yaml")]
#[case::numgen("nftables/destinations-in-a-map.yaml")]
fn verify_detects_every_mutant(#[case] file: &str) {
    testing::privileged(|| {
        let scenario =
            scenario::load(&Path::new("../scenarios").join(file)).unwrap_or_else(|errors| panic!("{errors}"));
        let options = Options { sample: Some(24), seed: 4, ..Options::default() };
        let all = mutate(std::slice::from_ref(&scenario), &options, &|_| {});
        let table = page(&all[0], Detail::default(), Settings::default());
        assert!(all[0].holds(), "{table}");
        let mutants = &all[0].result.as_ref().unwrap_or_else(|_| panic!("{table}")).mutants;
        assert!((20..=24).contains(&mutants.len()), "mutants that the kernel rejects are left out:\n{table}");
        let count = |fate: MutantStatus| mutants.iter().filter(|mutant| mutant.result == fate).count();
        assert!(count(MutantStatus::Killed) > 0 && count(MutantStatus::Equivalent) > 0, "{table}");
        let json: Value = serde_json::to_value(json(&all)).unwrap_or_default();
        assert_eq!(json["scenarios"][0]["mutants"].as_array().map(Vec::len), Some(mutants.len()));
        assert_eq!(json["total"]["killedByVerify"], count(MutantStatus::Killed));
    });
}

/// Rules saved by real kube-proxies: the inferred cluster is correct, so that all sources agree, and mutants are detected.
#[rstest]
#[case::policy_local("both-policies-local/v1.30-iptables/iptables-save.txt")]
#[case::source_ranges("loadbalancer-source-ranges-with-node/v1.25-iptables/iptables-save.txt")]
#[case::host_network("host-network-endpoint/v1.18-iptables/iptables-save.txt")]
#[case::ipv6("ipv6-only/v1.30-iptables/ip6tables-save.txt")]
#[case::elsewhere("internal-local-none-here/v1.30-iptables/iptables-save.txt")]
#[case::bridge("config-local-bridge/v1.30-iptables/iptables-save.txt")]
#[case::nftables("both-policies-local/v1.30-nftables/nft-ruleset.txt")]
#[case::both_families("dual-stack-loadbalancer/v1.30-nftables/nft-ruleset.txt")]
fn verify_detects_every_mutant_of_saved_rules(#[case] file: &str) {
    testing::privileged(|| {
        let file = Path::new("../rules/tests/golden").join(file);
        let text = input::read_file(&file).unwrap_or_else(|error| panic!("{error}"));
        let scenario = infer::from_evidence(&svclab::evidence::read(&text), &file, &[], infer::Connections::LeftOut)
            .unwrap_or_else(|errors| panic!("{errors}"))
            .scenario;
        let scenarios = std::slice::from_ref(&scenario);
        let options = svclab::verify::Options::default();
        let verified = verify(scenarios, &options, &|_| {});
        assert!(verified[0].holds(&options), "{verified:#?}");
        let all = mutate(scenarios, &Options { sample: Some(16), seed: 2, ..Options::default() }, &|_| {});
        let table = page(&all[0], Detail::default(), Settings::default());
        assert!(all[0].holds(), "{table}");
        let mutants = &all[0].result.as_ref().unwrap_or_else(|_| panic!("{table}")).mutants;
        assert!(mutants.iter().all(|mutant| mutant.netns == "node/node-1"), "{table}");
        assert!(mutants.iter().any(|mutant| mutant.result == MutantStatus::Killed), "{table}");
    });
}

/// Two tests: one expects something that never happens, the other checks only the delivery.
const TESTS: &str = "name: a test that fails on the unmodified rules
nodes: [{name: worker}]
pods: [{name: client, node: worker}, {name: web, node: worker}]
services: [{name: web, ports: [{port: 80}]}]
endpoints: [{service: web, pods: [web]}]
tests:
  - {name: wrong, probe: {from: pod/client, to: 'service/web:80'}, expect: {dropped: true}}
  - {name: coarse, probe: {from: pod/client, to: 'service/web:80'}, expect: {delivered: 'pod/web:80'}}
";

/// A test that fails anyway kills no mutant; mutants that the other tests miss are listed.
#[test]
fn a_test_that_fails_on_unmodified_rules_kills_no_mutant() {
    testing::privileged(|| {
        let scenario = scenario::parse(TESTS, Path::new("tests.yaml"), &input::read_file);
        let scenarios = [scenario.unwrap_or_else(|errors| panic!("{errors}"))];
        let all = mutate(&scenarios, &Options::default(), &|_| {});
        let text = page(&all[0], Detail { all_missed: true, sample: Some(1_000) }, Settings::default());
        let tried = all[0].result.as_ref().unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(
            (tried.baseline.tests, tried.baseline.failing_tests.as_slice()),
            (2, ["wrong".to_owned()].as_slice())
        );
        assert_eq!(tried.baseline.failing_flows, 0, "{text}");
        assert!(text.contains("already fails on the unmodified rules, so it cannot kill mutants: `wrong`"), "{text}");
        let (found, missed): (Vec<_>, Vec<_>) = tried
            .mutants
            .iter()
            .filter(|mutant| mutant.result == MutantStatus::Killed)
            .partition(|mutant| mutant.tests_fail);
        assert!(!found.is_empty() && !missed.is_empty(), "{text}");
        assert!(text.contains("--sample 1000: only "), "{text}");
        assert_eq!(text.matches("  missed: ").count(), missed.len(), "{text}");
        assert!(missed.iter().all(|mutant| mutant.example.is_some()), "{text}");
        assert!(
            page(&all[0], Detail::default(), Settings::default())
                .contains("more that the tests missed: use --missed to list all"),
            "{text}"
        );
        assert_eq!(summary(&all, Settings::default()), "", "one scenario needs no sum");
    });
}
