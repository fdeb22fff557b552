//! The generator against recordings of real kube-proxy: every cluster, release and family must be equal.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::Family;
use svclab_rules::iptables::{generate, parse, print};
use svclab_rules::nftables::{self, Unsupported};

use crate::golden_support::{first_difference, load, normalize};

#[rstest]
fn rules_equal_the_recording(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let (cluster, family, recorded) = open(&recording);
    let rules = generate(&cluster, &cluster.nodes[0], family).unwrap();
    let difference = first_difference(&normalize(&print(&rules)), &normalize(&recorded));
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

#[rstest]
fn tables_equal_the_recording(#[files("tests/golden/*/v1.30-nftables/nft-ruleset.txt")] recording: PathBuf) {
    let cluster = load(&recording.parent().and_then(Path::parent).unwrap().join("cluster.yaml"), "1.30");
    let recorded = std::fs::read_to_string(&recording).unwrap();
    for (family, head) in [(Family::Ipv4, "table ip kube-proxy {\n"), (Family::Ipv6, "table ip6 kube-proxy {\n")] {
        let generated = nftables::generate(&cluster, &cluster.nodes[0], family);
        let Some(start) = recorded.find(head) else {
            assert!(matches!(generated, Err(Unsupported::Comment { .. } | Unsupported::InterfacePrefix { .. })));
            continue;
        };
        let length = recorded[start..].find("\n}\n").unwrap() + 3;
        let table = &recorded[start..start + length];
        let printed = nftables::print(&generated.unwrap());
        let difference = first_difference(&normalize(&printed), &normalize(table));
        assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}

#[rstest]
fn a_recording_comes_back_from_the_parser(#[files("tests/golden/*/v*-iptables/*save.txt")] recording: PathBuf) {
    let (_, family, recorded) = open(&recording);
    assert_eq!(print(&parse(&recorded, family).unwrap().rules), recorded);
}

/// What the documentation says to be by recording has recordings, and nothing else; every cluster has one row, that of its
/// longest pattern.
#[test]
fn the_table_of_features_is_true() {
    const RELEASES: [&str; 5] =
        ["v1.18-iptables", "v1.21-iptables", "v1.25-iptables", "v1.30-iptables", "v1.30-nftables"];
    let rows = include_str!("../../src/profile.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let rows: Vec<(&str, &[&str])> = rows
        .iter()
        .filter(|row| row.len() == 8 && row[1].starts_with('`'))
        .flat_map(|row| row[1].split(' ').map(|pattern| (pattern.trim_matches('`'), &row[2..7])))
        .collect();
    let mut used = HashSet::new();
    for folder in Path::new("tests/golden").read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        let row = rows.iter().filter(|(pattern, _)| fits(pattern)).max_by_key(|(pattern, _)| pattern.len());
        let (pattern, cells) = row.unwrap_or_else(|| panic!("{name} has no row"));
        used.insert(*pattern);
        for (release, cell) in RELEASES.iter().zip(cells.iter()) {
            let recorded = if folder.join(release).is_dir() { "recording" } else { "description" };
            assert_eq!(*cell, recorded, "{name} of {release}, in the row with {pattern}");
        }
    }
    let unused: Vec<_> = rows.iter().map(|(pattern, _)| pattern).filter(|pattern| !used.contains(*pattern)).collect();
    assert!(unused.is_empty(), "no cluster is called {unused:?}");
}

/// The cluster of a recording with its release set, its family and its text.
fn open(recording: &Path) -> (svclab_rules::cluster::Cluster, Family, String) {
    let release = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    let version = release.trim_start_matches('v').trim_end_matches("-iptables");
    let ipv6 = recording.file_name().is_some_and(|name| name == "ip6tables-save.txt");
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let folder = recording.parent().and_then(Path::parent).unwrap();
    (load(&folder.join("cluster.yaml"), version), family, std::fs::read_to_string(recording).unwrap())
}
