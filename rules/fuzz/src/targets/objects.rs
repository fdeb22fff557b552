//! Kubernetes objects.

use svclab_rules::cluster::objects::{Object, assemble};
use svclab_rules::cluster::{Cluster, Family, ProxyConfig};
use svclab_rules::{iptables, nftables};

use super::{nft_text, rules_folder};
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "objects", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("fuzz/corpus/objects"), rules_folder("fuzz/regressions/objects")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &[".json"])
}

/// Checks that the printed rules of every node of an accepted cluster parse to the same rules, in both modes.
///
/// # Panics
///
/// If that is not the case.
pub fn check(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Object>(data) else { return };
    let Ok(assembly) = assemble(&[object], ProxyConfig::default()) else { return };
    for family in Family::ALL {
        is_written(&assembly.cluster, family);
    }
}

fn is_written(cluster: &Cluster, family: Family) {
    for node in &cluster.nodes {
        if let Ok(rules) = iptables::generate(cluster, node, family) {
            let printed = iptables::print(&rules);
            let again = iptables::parse(&printed, family).map_err(|errors| errors[0].to_string());
            assert_eq!(again.as_ref().map(|again| &again.rules), Ok(&rules), "printed:\n{printed}");
        }
        if let Ok(rules) = nftables::generate(cluster, node, family) {
            nft_text::is_read_back(&rules);
        }
    }
}
