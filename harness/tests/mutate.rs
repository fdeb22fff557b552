//! Mistakes in rules: `svclab verify` finds every one by which a flow differs.

use std::path::Path;

use rstest::rstest;
use svclab::mutate::{Fate, Options, json, mutate, table};
use svclab::verify::verify;
use svclab::{scenario, testing};

#[rstest]
#[case::cluster_ip("cluster-ip/other-node.yaml")]
#[case::node_port("node-port/from-inside.yaml")]
#[case::chance("distribution/three.yaml")]
#[case::both_families("dual-stack/both-families.yaml")]
#[case::balance("distribution/seven.yaml")]
#[case::refused("no-endpoints/reject.yaml")]
#[case::known_fault("releases/1.23-internal-policy.yaml")]
#[case::nftables("nftables/policy-local.yaml")]
#[case::numgen("nftables/destinations-in-a-map.yaml")]
fn verify_finds_every_mistake(#[case] file: &str) {
    testing::privileged(|| {
        let scenario =
            scenario::load(&Path::new("../scenarios").join(file)).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let options = Options { sample: Some(24), seed: 4, ..Options::default() };
        let all = mutate(std::slice::from_ref(&scenario), &options, &|_| {});
        let table = table(&all[0]);
        assert!(all[0].holds(), "{table}");
        let mutants = all[0].result.as_ref().unwrap_or_else(|_| panic!("{table}"));
        assert!((20..=24).contains(&mutants.len()), "some that no kernel takes are left out:\n{table}");
        let count = |fate: Fate| mutants.iter().filter(|mutant| mutant.fate == fate).count();
        assert!(count(Fate::Killed) > 0 && count(Fate::Equivalent) > 0, "{table}");
        assert_eq!(json(&all)[0]["mutants"].as_array().map(Vec::len), Some(mutants.len()));
    });
}

/// Of rules alone, saved by real kube-proxies: what is assumed around them is right, so that all voices agree; and mistakes are found.
#[rstest]
#[case::policy_local("both-policies-local/v1.30-iptables/iptables-save.txt")]
#[case::source_ranges("loadbalancer-source-ranges-with-node/v1.25-iptables/iptables-save.txt")]
#[case::host_network("host-network-endpoint/v1.18-iptables/iptables-save.txt")]
#[case::ipv6("ipv6-only/v1.30-iptables/ip6tables-save.txt")]
#[case::elsewhere("internal-local-none-here/v1.30-iptables/iptables-save.txt")]
#[case::nftables("both-policies-local/v1.30-nftables/nft-ruleset.txt")]
#[case::both_families("dual-stack-loadbalancer/v1.30-nftables/nft-ruleset.txt")]
fn of_saved_rules_verify_finds_every_mistake(#[case] file: &str) {
    testing::privileged(|| {
        let file = Path::new("../rules/tests/golden").join(file);
        let text = scenario::read_file(&file).unwrap_or_else(|error| panic!("{error}"));
        let scenario = scenario::of_rules(&text, &file).unwrap_or_else(|mistakes| panic!("{mistakes}")).scenario;
        let scenarios = std::slice::from_ref(&scenario);
        let options = svclab::verify::Options::default();
        let verified = verify(scenarios, &options, &|_| {});
        assert!(verified[0].holds(&options), "{verified:#?}");
        let all = mutate(scenarios, &Options { sample: Some(16), seed: 2, ..Options::default() }, &|_| {});
        let table = table(&all[0]);
        assert!(all[0].holds(), "{table}");
        let mutants = all[0].result.as_ref().unwrap_or_else(|_| panic!("{table}"));
        assert!(mutants.iter().all(|mutant| mutant.space == "node/node-1"), "{table}");
        assert!(mutants.iter().any(|mutant| mutant.fate == Fate::Killed), "{table}");
    });
}
