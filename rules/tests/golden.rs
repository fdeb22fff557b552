//! The generator against recordings of real kube-proxy: every cluster, release and family must be equal.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::{Path, PathBuf};

use rstest::rstest;
use svclab_rules::cluster::Family;
use svclab_rules::iptables::{generate, parse, print};
use svclab_rules::nftables::{self, Unsupported};

mod golden_support;

use golden_support::{first_difference, load, normalize};

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

/// The cluster of a recording with its release set, its family and its text.
fn open(recording: &Path) -> (svclab_rules::cluster::Cluster, Family, String) {
    let release = recording.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap();
    let version = release.trim_start_matches('v').trim_end_matches("-iptables");
    let ipv6 = recording.file_name().is_some_and(|name| name == "ip6tables-save.txt");
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let folder = recording.parent().and_then(Path::parent).unwrap();
    (load(&folder.join("cluster.yaml"), version), family, std::fs::read_to_string(recording).unwrap())
}
