//! The generator compared with recordings of real kube-proxy: every release, cluster and family must be equal.

use std::collections::HashSet;
use std::path::Path;

use rstest::rstest;
use svclab_rules::cluster::Family;
use svclab_rules::iptables::{generate, parse, print};
use svclab_rules::nftables::{self, Unsupported};

use crate::each_file::each_file;
use crate::golden_support::recordings::{clusters, is_random, recording, version, without_nfacct};
use crate::golden_support::{first_difference, load, normalize};

/// The recordings of a release: the number of clusters and of equal documents, and the differences of the others.
#[derive(Default)]
struct Tally {
    clusters: usize,
    equal: usize,
    different: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, generated: &str, recorded: &str) {
        match first_difference(&normalize(generated), &normalize(recorded)) {
            None => self.equal += 1,
            Some(difference) => self.different.push(format!("{what}: {difference}")),
        }
    }

    /// Asserts that there are recordings of exactly this many clusters, with exactly this many documents, all equal.
    fn assert_equal(&self, clusters: usize, documents: usize) {
        let Self { equal, different, .. } = self;
        assert!(different.is_empty(), "{} of {documents} differ\n{}", different.len(), different.join("\n"));
        assert_eq!((self.clusters, *equal), (clusters, documents), "recordings were lost or added");
    }
}

/// Both families of each cluster, with and without nfacct in the kernel: from 1.32 on there are two documents per family, except if no rule
/// counts (`config-tcp-be-liberal` in IPv6).
#[rstest]
#[case("1.18", 71, 142)]
#[case("1.21", 75, 150)]
#[case("1.25", 77, 154)]
#[case("1.30", 80, 160)]
#[case("1.32", 102, 407)]
#[case("1.33", 102, 407)]
#[case("1.34", 102, 407)]
#[case("1.35", 102, 407)]
#[case("1.36", 101, 403)]
fn rules_equal_the_recordings(#[case] minor: &str, #[case] recorded: usize, #[case] documents: usize) {
    let mut tally = Tally::default();
    for folder in clusters(Path::new("tests/golden")) {
        let Some(recording) = recording(&folder, minor, "iptables") else { continue };
        tally.clusters += 1;
        let mut cluster = load(&folder.join("cluster.yaml"), version(minor));
        for (family, file) in [(Family::Ipv4, "iptables-save.txt"), (Family::Ipv6, "ip6tables-save.txt")] {
            let text = std::fs::read_to_string(recording.join(file)).unwrap();
            let bare = without_nfacct(&text);
            for recorded in [Some(&bare), Some(&text).filter(|text| **text != bare)].into_iter().flatten() {
                cluster.proxy.nfacct = *recorded != bare;
                let what = format!("{} of {minor}, {family}, nfacct {}", folder.display(), cluster.proxy.nfacct);
                tally.compare(&what, &print(&generate(&cluster, &cluster.nodes[0], family).unwrap()), recorded);
            }
        }
    }
    tally.assert_equal(recorded, documents);
}

/// Both families of each cluster. In a family without a table, the sync failed.
#[rstest]
#[case("1.30", 78)]
#[case("1.32", 100)]
#[case("1.33", 100)]
#[case("1.34", 100)]
#[case("1.35", 100)]
#[case("1.36", 99)]
fn tables_equal_the_recordings(#[case] minor: &str, #[case] recorded: usize) {
    let mut tally = Tally::default();
    for folder in clusters(Path::new("tests/golden")) {
        let Some(recording) = recording(&folder, minor, "nftables") else { continue };
        tally.clusters += 1;
        let cluster = load(&folder.join("cluster.yaml"), version(minor));
        let recorded = std::fs::read_to_string(recording.join("nft-ruleset.txt")).unwrap();
        for (family, head) in [(Family::Ipv4, "table ip kube-proxy {\n"), (Family::Ipv6, "table ip6 kube-proxy {\n")] {
            let what = format!("{} of {minor}, {family}", folder.display());
            let table = recorded.find(head).map(|start| {
                let length = recorded[start..].find("\n}\n").unwrap() + 3;
                &recorded[start..start + length]
            });
            match (nftables::generate(&cluster, &cluster.nodes[0], family), table) {
                (Ok(generated), Some(table)) => tally.compare(&what, &nftables::print(&generated), table),
                (Err(Unsupported::Comment { .. } | Unsupported::InterfacePrefix { .. }), None) => tally.equal += 1,
                (generated, _) => tally.different.push(format!("{what}: {generated:?}")),
            }
        }
    }
    tally.assert_equal(recorded, 2 * recorded);
}

#[test]
fn a_recording_comes_back_from_the_parser() {
    each_file(&["tests/golden/*/v*-iptables/*save.txt"], |recording| {
        let ipv6 = recording.file_name().is_some_and(|name| name == "ip6tables-save.txt");
        let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        let recorded = std::fs::read_to_string(recording).unwrap();
        assert_eq!(print(&parse(&recorded, family).unwrap().rules), recorded);
    });
}

/// Exactly the features that are documented as "by recording" have recordings; every cluster belongs to one row, that of its longest
/// pattern.
#[test]
fn the_table_of_features_is_true() {
    const COLUMNS: [(&[&str], &str); 7] = [
        (&["1.18"], "iptables"),
        (&["1.21"], "iptables"),
        (&["1.25"], "iptables"),
        (&["1.30"], "iptables"),
        (&["1.30"], "nftables"),
        (&LATER, "iptables"),
        (&LATER, "nftables"),
    ];
    const LATER: [&str; 5] = ["1.32", "1.33", "1.34", "1.35", "1.36"];
    let rows = include_str!("../../src/profile/mod.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let rows: Vec<(&str, &[&str])> = rows
        .iter()
        .filter(|row| row.len() == 10 && row[1].starts_with('`'))
        .flat_map(|row| row[1].split(' ').map(|pattern| (pattern.trim_matches('`'), &row[2..9])))
        .collect();
    let mut used = HashSet::new();
    for folder in clusters(Path::new("tests/golden")) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap();
        let fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        let row = rows.iter().filter(|(pattern, _)| fits(pattern)).max_by_key(|(pattern, _)| pattern.len());
        let (pattern, cells) = row.unwrap_or_else(|| panic!("{name} has no row"));
        used.insert(*pattern);
        for ((releases, mode), cell) in COLUMNS.iter().zip(cells.iter()) {
            for release in *releases {
                let is_recorded = recording(&folder, release, mode).is_some() || is_random(&folder, release);
                let recorded = if is_recorded { "recording" } else { "description" };
                assert_eq!(*cell, recorded, "{name} of {release}, {mode} mode, in the row with {pattern}");
            }
        }
    }
    let unused: Vec<_> = rows.iter().map(|(pattern, _)| pattern).filter(|pattern| !used.contains(*pattern)).collect();
    assert!(unused.is_empty(), "no cluster is called {unused:?}");
}
