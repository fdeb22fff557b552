//! Mistakes in rules: `svclab verify` finds every one by which a flow differs.

use std::path::Path;

use rstest::rstest;
use svclab::mutate::{Fate, Options, json, mutate, table};
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
