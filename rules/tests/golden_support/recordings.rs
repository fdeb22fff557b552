//! Which recording is of which release: a folder is kept only where it differs from that of the release before.

use std::path::{Path, PathBuf};

/// The patch releases that were recorded from 1.32 on; of older ones, the newest patch is taken.
const PATCHES: [(&str, &str); 5] =
    [("1.32", "1.32.5"), ("1.33", "1.33.2"), ("1.34", "1.34.1"), ("1.35", "1.35.2"), ("1.36", "1.36.2")];

/// The oldest release that a later one may equal, so that it has no folder of its own.
const FIRST_KEPT: &str = "1.30";

/// The cluster and the release in question.
const RANDOM: (&str, &str) = ("duplicate-endpoints", "1.36");

/// The folders of all clusters, by name.
pub(crate) fn clusters(golden: &Path) -> Vec<PathBuf> {
    let entries = golden.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The release that was recorded as a minor one: `1.33.2` for `1.33`.
pub(crate) fn version(minor: &str) -> &str {
    PATCHES.iter().find(|(known, _)| *known == minor).map_or(minor, |(_, patch)| patch)
}

/// Where the recording of a cluster, a minor release and a mode is, if there is one: in the release's folder, else in that of
/// the last one before.
pub(crate) fn recording(cluster: &Path, minor: &str, mode: &str) -> Option<PathBuf> {
    if is_random(cluster, minor) {
        return None;
    }
    let folder = |minor: &str| Some(cluster.join(format!("v{minor}-{mode}"))).filter(|folder| folder.is_dir());
    let Some(at) = PATCHES.iter().position(|(known, _)| *known == minor) else { return folder(minor) };
    let not_later = PATCHES[..=at].iter().rev().map(|(known, _)| *known);
    not_later.chain([FIRST_KEPT]).find_map(folder)
}

/// Whether a release's rules for a cluster depend on chance, so that no recording of them is kept.
pub(crate) fn is_random(cluster: &Path, minor: &str) -> bool {
    cluster.ends_with(RANDOM.0) && minor == RANDOM.1
}

/// Rules of iptables mode as kube-proxy writes them where the kernel has no nfacct.
pub(crate) fn without_nfacct(rules: &str) -> String {
    let lines = rules.lines().filter(|line| !line.contains("--nfacct-name  localhost_nps_accepted_pkts "));
    let invalid = " -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts";
    lines.map(|line| line.replace(invalid, "") + "\n").collect()
}
