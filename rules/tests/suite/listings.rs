//! Listings of real kernels' rules, by `iptables -t nat -L` in all its forms, compared with the recordings that were loaded.

use std::path::{Path, PathBuf};

use svclab_rules::cascade::{Assessment, cascades};
use svclab_rules::cluster::Family;
use svclab_rules::iptables::{Chain, Rule, TableName, parse, parse_listing};

/// `tests/listings/CASE/RELEASE/BACKEND-FAMILY-OPTIONS.txt`, listed by iptables 1.8.9 after the recording
/// `tests/golden/CASE/RELEASE` was loaded.
fn listings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/listings");
    let below = |folder: PathBuf| {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.ends_with("README.md"))
    };
    let mut all: Vec<PathBuf> = below(root).flat_map(below).flat_map(below).collect();
    all.sort();
    all
}

/// Returns the rules without what a listing hides: interfaces if it has no columns for them, and counters.
fn shown(chain: &Chain, has_interfaces: bool) -> Vec<Rule> {
    let hide = |rule: &Rule| {
        let interfaces =
            if has_interfaces { (rule.in_interface.clone(), rule.out_interface.clone()) } else { (None, None) };
        Rule { counters: None, in_interface: interfaces.0, out_interface: interfaces.1, ..rule.clone() }
    };
    chain.rules.iter().map(hide).collect()
}

#[test]
fn whole_listings_have_every_rule_and_are_even() {
    let all = listings();

    assert_eq!(all.len(), 56);
    let mut cascades_seen = 0;
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let release = path.parent().unwrap();
        let case = release.parent().unwrap();
        let is_ipv6 = path.file_name().unwrap().to_string_lossy().contains("-ipv6-");
        let (family, program) = if is_ipv6 { (Family::Ipv6, "ip6tables") } else { (Family::Ipv4, "iptables") };
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(case.file_name().unwrap());
        let saved = golden.join(release.file_name().unwrap()).join(format!("{program}-save.txt"));
        let saved = parse(&std::fs::read_to_string(saved).unwrap(), family).unwrap().rules;
        let listing = parse_listing(&text).unwrap();
        assert_eq!(listing.cut, None, "{}", path.display());
        let has_interfaces = text.contains(" pkts ");
        let saved = saved.table(TableName::Nat).unwrap();
        let listed = listing.rules.table(TableName::Nat).unwrap();
        assert_eq!(listed.chains.len(), saved.chains.len(), "{}", path.display());
        for chain in &saved.chains {
            let own = listed.chain(&chain.name).map(|own| shown(own, has_interfaces));
            assert_eq!(own, Some(shown(chain, has_interfaces)), "{}: {}", path.display(), chain.name);
        }
        for cascade in cascades(&listing.rules) {
            cascades_seen += 1;
            let said = (&cascade.defects, &cascade.unknown);
            assert_eq!(cascade.assessment(), Assessment::Even, "{}: {said:?}", path.display());
        }
    }
    assert!(cascades_seen > 100, "{cascades_seen}");
}
