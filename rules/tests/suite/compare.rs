//! Comparison of rule sets, tested with recordings of real kube-proxy: equal rules give no findings, different ones give findings.

use std::path::Path;

use rstest::rstest;
use svclab_rules::cluster::{Cluster, Family, ProtocolNumber};
use svclab_rules::compare::{Difference, Finding, compare};
use svclab_rules::iptables::{Chain, Negatable, RuleSet, Target, generate, parse, print_rule};
use svclab_rules::nftables::{self, Element, Key, Ruleset, Verdict};

use crate::each_file::each_file;

/// Maximum number of rules of a recording that are changed in other ways than by deletion, spread over the whole recording.
const CHANGED: usize = 40;

/// A protocol that no rule of kube-proxy matches.
const GRE: ProtocolNumber = ProtocolNumber(47);

#[test]
fn the_generated_rules_do_the_same() {
    each_file(&["tests/golden/*/v*-iptables/*save.txt"], assert_generated_rules_do_the_same);
}

fn assert_generated_rules_do_the_same(recording: &Path) {
    let recorded = read(recording);
    let mut cluster = cluster_of(recording);
    for nfacct in [false, true] {
        cluster.proxy.nfacct = nfacct;
        let generated = generate(&cluster, &cluster.nodes[0], recorded.family).unwrap();
        assert_eq!(compare(&recorded, &generated), []);
        assert_eq!(compare(&generated, &recorded), []);
    }
}

/// Returns the cluster of a recording, with the recorded release.
fn cluster_of(recording: &Path) -> Cluster {
    let release = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    let minor = release.trim_start_matches('v').split('-').next().unwrap();
    let folder = recording.parent().and_then(Path::parent).unwrap();
    crate::golden_support::load(&folder.join("cluster.yaml"), crate::golden_support::recordings::version(minor))
}

/// Maximum number of rules of a recording that are deleted, one at a time: all of them except in clusters of 1,000 endpoints, whose rules
/// are similar.
const DELETED: usize = 400;

/// Every deleted or changed rule is found.
#[test]
fn every_deleted_rule_is_found() {
    let patterns = ["tests/golden/*/v1.18-iptables/*save.txt", "tests/golden/*/v1.30-iptables/*save.txt"];
    each_file(&patterns, assert_every_deleted_rule_is_found);
}

fn assert_every_deleted_rule_is_found(recording: &Path) {
    let recorded = read(recording);
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

/// A change of a chain, with its description.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Chain));

#[test]
fn every_changed_rule_is_found() {
    let patterns =
        ["tests/golden/*/v1.18-iptables/iptables-save.txt", "tests/golden/*/v1.30-iptables/iptables-save.txt"];
    each_file(&patterns, assert_every_changed_rule_is_found);
}

fn assert_every_changed_rule_is_found(recording: &Path) {
    let recorded = read(recording);
    let places: Vec<(usize, usize, usize)> = places(&recorded);
    let step = places.len().div_ceil(CHANGED);
    for (table, chain, rule) in places.into_iter().step_by(step) {
        let shown = &recorded.tables[table].chains[chain];
        let shown = print_rule(recorded.family, &shown.name, &shown.rules[rule]);
        let changes: [Change<'_>; 3] = [
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

/// Recorded rules and svclab's generated ones are equivalent, in nftables mode too.
#[test]
fn the_generated_tables_do_the_same() {
    each_file(&["tests/golden/*/v*-nftables/nft-ruleset.txt"], assert_generated_tables_do_the_same);
}

fn assert_generated_tables_do_the_same(recording: &Path) {
    let text = std::fs::read_to_string(recording).unwrap();
    let recorded = nftables::parse(&text).unwrap();
    assert_eq!(compare(&recorded, &recorded), []);
    let cluster = cluster_of(recording);
    let mut compared = 0;
    for family in recorded.rules.tables.iter().map(|table| table.family) {
        let generated = nftables::generate(&cluster, &cluster.nodes[0], family).unwrap();
        let of_family = Ruleset { tables: recorded.rules.table(family).cloned().into_iter().collect() };
        assert_eq!(compare(&of_family, &generated), []);
        assert_eq!(compare(&generated, &of_family), []);
        compared += 1;
    }
    assert!(compared > 0, "no table");
}

/// Printed nft text parses to the same tables.
#[test]
fn recorded_tables_are_read_and_printed_as_they_were() {
    each_file(&["tests/golden/*/v*-nftables/nft-ruleset.txt"], |recording| {
        let text = std::fs::read_to_string(recording).unwrap();
        let parsed = nftables::parse(&text).unwrap();
        assert_eq!(nftables::print(&parsed.rules), text);
    });
}

/// Every deleted element and rule of a table is found, and no other one is reported.
#[rstest]
fn every_deleted_element_and_rule_is_found(#[values("1.30", "1.37")] version: &str) {
    each_file(&["tests/golden/*/v1.30-nftables/nft-ruleset.txt"], |recording| {
        assert_every_deleted_element_and_rule_is_found(recording, version);
    });
}

fn assert_every_deleted_element_and_rule_is_found(recording: &Path, version: &str) {
    let folder = recording.parent().and_then(Path::parent).unwrap();
    let cluster = crate::golden_support::load(&folder.join("cluster.yaml"), version);
    let recorded = nftables::parse(&std::fs::read_to_string(recording).unwrap()).unwrap().rules;
    // If a recording has no table, the release fails to write it.
    let written = |family: &Family| version != "1.30" || recorded.table(*family).is_some();
    for family in Family::ALL.into_iter().filter(written) {
        let whole = nftables::generate(&cluster, &cluster.nodes[0], family).unwrap();
        let table = &whole.tables[0];
        let elements =
            table.sets.iter().enumerate().flat_map(|(set, one)| (0..one.elements.len()).map(move |at| (set, at)));
        let rules =
            table.chains.iter().enumerate().flat_map(|(chain, one)| (0..one.rules.len()).map(move |at| (chain, at)));
        let (elements, rules): (Vec<_>, Vec<_>) = (elements.collect(), rules.collect());
        let step = (elements.len() + rules.len()).div_ceil(DELETED);
        assert!(!rules.is_empty());
        for (set, at) in elements.into_iter().step_by(step) {
            let mut changed = whole.clone();
            let element = changed.tables[0].sets[set].elements.remove(at);
            let names = names_of_element(&table.sets[set].name, &element);
            only_reported(&compare(&whole, &changed), &names, &format!("{element:?} of {}", table.sets[set].name));
        }
        for (chain, at) in rules.into_iter().step_by(step) {
            let mut changed = whole.clone();
            let rule = changed.tables[0].chains[chain].rules.remove(at);
            let name = &table.chains[chain].name;
            let shown = nftables::print_rule(&rule, family);
            only_reported(&compare(&whole, &changed), &[subject_of_chain(name)], &format!("{shown} of {name}"));
        }
    }
}

/// Asserts that there are findings, that all of them are missing facts, and that each names one of these.
fn only_reported(findings: &[Finding], names: &[String], deleted: &str) {
    assert!(!findings.is_empty(), "not found: {deleted}");
    for finding in findings {
        let reported = finding.to_string();
        assert!(names.iter().any(|name| reported.contains(name)), "of {deleted}, this was reported: {reported}");
        let Difference::Missing(_) = finding.difference else { panic!("of {deleted}, this was reported: {reported}") };
    }
}

/// `default/web` of `service-6QGVAGZA-default/web/tcp/http`; other chains' own names.
fn subject_of_chain(chain: &str) -> String {
    let mut parts = chain.split('/');
    match (parts.next().and_then(|part| part.split_once('-')?.1.split_once('-')), parts.next()) {
        (Some((_, namespace)), Some(name)) => format!("service {namespace}/{name}"),
        _ => format!("chain {chain} of "),
    }
}

/// Returns the possible subjects of an element: a service, or the address in its key.
fn names_of_element(set: &str, element: &Element) -> Vec<String> {
    let of_verdict = match &element.verdict {
        Some(Verdict::Goto(chain)) if chain.contains('/') => Some(subject_of_chain(chain)),
        _ => None,
    };
    let service = of_verdict
        .or_else(|| element.comment.as_ref().map(|comment| format!("service {}", comment.trim_end_matches(':'))));
    let address = element.key.iter().find_map(|part| match part {
        Key::Address(ip) => Some(ip.to_string()),
        Key::Addresses(_) | Key::Protocol(_) | Key::Port(_) => None,
    });
    let in_set = address.map(|ip| if set == "nodeport-ips" { format!("set {set} of ") } else { ip });
    service.or(in_set).into_iter().collect()
}

fn read(recording: &Path) -> RuleSet {
    let ipv6 = recording.file_name().is_some_and(|name| name == "ip6tables-save.txt");
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    parse(&std::fs::read_to_string(recording).unwrap(), family).unwrap().rules
}

/// Returns the positions of all rules: table, chain, rule.
fn places(rules: &RuleSet) -> Vec<(usize, usize, usize)> {
    let mut places = Vec::new();
    for (table, content) in rules.tables.iter().enumerate() {
        for (chain, content) in content.chains.iter().enumerate() {
            places.extend((0..content.rules.len()).map(|rule| (table, chain, rule)));
        }
    }
    places
}
