//! Mistakes in rules: `svclab verify` finds every one by which a flow differs.

use std::path::Path;

use rstest::rstest;
use svclab::mutate::{Fate, Options, json, mutate, table};
use svclab::scenario::{Flows, Step};
use svclab::{scenario, testing};

#[rstest]
#[case::cluster_ip("cluster-ip/other-node.yaml")]
#[case::node_port("node-port/from-inside.yaml")]
#[case::chance("distribution/three.yaml")]
#[case::both_families("dual-stack/both-families.yaml")]
fn verify_finds_every_mistake(#[case] file: &str) {
    testing::privileged(|| {
        let mut scenario =
            scenario::load(&Path::new("../scenarios").join(file)).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        // Tests that count many flows take too long for each mutant here.
        scenario.tests.retain(|test| test.steps.iter().all(is_of_one_flow));
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

fn is_of_one_flow(step: &Step) -> bool {
    matches!(step, Step::Probe(probe, _) if probe.flows == Flows::Exactly(1))
}

/// Rules that nobody can walk are no success.
#[test]
fn rules_of_nftables_are_said_not_to_be_mutated() {
    testing::privileged(|| {
        let scenario =
            scenario::load(Path::new("../scenarios/nftables/policy-local.yaml")).unwrap_or_else(|e| panic!("{e}"));
        let all = mutate(std::slice::from_ref(&scenario), &Options::default(), &|_| {});
        assert!(!all[0].holds());
        assert!(table(&all[0]).contains("nftables"), "{}", table(&all[0]));
    });
}
