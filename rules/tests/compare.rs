//! The comparison of rule sets, held against recordings of real kube-proxy: what is equal gives nothing, what is not
//! gives something.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::Family;
use svclab_rules::compare::compare;
use svclab_rules::iptables::{Chain, Negatable, ProtocolNumber, RuleSet, Target, generate, parse, print_rule};

#[expect(dead_code, reason = "shared with the tests that compare text")]
mod golden_support;

/// At most so many rules of a recording are changed in other ways than being deleted, spread over all of it.
const CHANGED: usize = 40;

/// A protocol that no rule of kube-proxy's is about.
const GRE: ProtocolNumber = ProtocolNumber(47);

#[rstest]
fn the_generated_rules_do_the_same(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let recorded = read(&recording);
    let release = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    let version = release.trim_start_matches('v').trim_end_matches("-iptables");
    let folder = recording.parent().and_then(Path::parent).unwrap();
    let cluster = golden_support::load(&folder.join("cluster.yaml"), version);
    let generated = generate(&cluster, &cluster.nodes[0], recorded.family).unwrap();
    assert_eq!(compare(&recorded, &generated), []);
    assert_eq!(compare(&generated, &recorded), []);
}

/// At most so many rules of a recording are deleted, one at a time: all of them but in clusters of 1,000 endpoints, whose
/// rules are much alike.
const DELETED: usize = 400;

/// Not one rule means nothing.
#[rstest]
fn every_deleted_rule_is_found(
    #[files("tests/golden/*/v1.18-iptables/*save.txt")]
    #[files("tests/golden/*/v1.30-iptables/*save.txt")]
    recording: PathBuf,
) {
    let recorded = read(&recording);
    let mut changed = recorded.clone();
    let places = places(&recorded);
    let step = places.len().div_ceil(DELETED);
    for (table, chain, rule) in places.into_iter().step_by(step) {
        let deleted = changed.tables[table].chains[chain].rules.remove(rule);
        let found = compare(&recorded, &changed);
        let name = &recorded.tables[table].chains[chain].name;
        assert!(!found.is_empty(), "not found: {} deleted", print_rule(recorded.family, name, &deleted));
        changed.tables[table].chains[chain].rules.insert(rule, deleted);
    }
    assert_eq!(changed, recorded);
    assert_eq!(compare(&recorded, &changed), []);
}

/// What is done to a chain.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Chain));

#[rstest]
fn every_changed_rule_is_found(
    #[files("tests/golden/*/v1.18-iptables/iptables-save.txt")]
    #[files("tests/golden/*/v1.30-iptables/iptables-save.txt")]
    recording: PathBuf,
) {
    let recorded = read(&recording);
    let places: Vec<(usize, usize, usize)> = places(&recorded);
    let step = places.len().div_ceil(CHANGED);
    for (table, chain, rule) in places.into_iter().step_by(step) {
        let shown = &recorded.tables[table].chains[chain];
        let shown = print_rule(recorded.family, &shown.name, &shown.rules[rule]);
        let changes: [Change<'_>; 4] = [
            ("deleted", &|chain| drop(chain.rules.remove(rule))),
            ("repeated", &|chain| chain.rules.insert(rule, chain.rules[rule].clone())),
            ("with another target", &|chain| chain.rules[rule].target = Some(Target::Return)),
            ("for another protocol", &|chain| chain.rules[rule].protocol = Some(Negatable::is(GRE))),
        ];
        for (what, change) in changes {
            let mut changed = recorded.clone();
            change(&mut changed.tables[table].chains[chain]);
            if changed != recorded {
                assert!(!compare(&recorded, &changed).is_empty(), "not found: {shown} {what}");
                assert!(!compare(&changed, &recorded).is_empty(), "not found the other way: {shown} {what}");
            }
        }
    }
}

fn read(recording: &Path) -> RuleSet {
    let ipv6 = recording.file_name().is_some_and(|name| name == "ip6tables-save.txt");
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    parse(&std::fs::read_to_string(recording).unwrap(), family).unwrap().rules
}

/// The positions of all rules: table, chain, rule.
fn places(rules: &RuleSet) -> Vec<(usize, usize, usize)> {
    let mut places = Vec::new();
    for (table, content) in rules.tables.iter().enumerate() {
        for (chain, content) in content.chains.iter().enumerate() {
            places.extend((0..content.rules.len()).map(|rule| (table, chain, rule)));
        }
    }
    places
}
