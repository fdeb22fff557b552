//! The recording of each release: a folder exists only if it differs from that of the previous release.

use std::path::{Path, PathBuf};

/// The recorded patch releases from 1.32 on; for older ones, the newest patch is assumed.
const PATCHES: [(&str, &str); 5] =
    [("1.32", "1.32.5"), ("1.33", "1.33.2"), ("1.34", "1.34.1"), ("1.35", "1.35.2"), ("1.36", "1.36.2")];

/// The oldest release that a later one may equal, so that it has no folder of its own.
const FIRST_KEPT: &str = "1.30";

/// The cluster and release with random rules.
const RANDOM: (&str, &str) = ("duplicate-endpoints", "1.36");

/// Returns the folders of all clusters, by name.
pub(crate) fn clusters(golden: &Path) -> Vec<PathBuf> {
    let entries = golden.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Returns the recorded release of a minor release: `1.33.2` for `1.33`.
pub(crate) fn version(minor: &str) -> &str {
    PATCHES.iter().find(|(known, _)| *known == minor).map_or(minor, |(_, patch)| patch)
}

/// Returns the recording of a cluster, a minor release and a mode, if any: in the release's folder, otherwise in that of the last earlier
/// one.
pub(crate) fn recording(cluster: &Path, minor: &str, mode: &str) -> Option<PathBuf> {
    if is_random(cluster, minor) {
        return None;
    }
    let folder = |minor: &str| Some(cluster.join(format!("v{minor}-{mode}"))).filter(|folder| folder.is_dir());
    let Some(at) = PATCHES.iter().position(|(known, _)| *known == minor) else { return folder(minor) };
    let not_later = PATCHES[..=at].iter().rev().map(|(known, _)| *known);
    not_later.chain([FIRST_KEPT]).find_map(folder)
}

/// Returns whether a release's rules for a cluster are random, so that there is no recording.
pub(crate) fn is_random(cluster: &Path, minor: &str) -> bool {
    cluster.ends_with(RANDOM.0) && minor == RANDOM.1
}

/// Returns the rules of iptables mode as kube-proxy writes them without nfacct in the kernel.
pub(crate) fn without_nfacct(rules: &str) -> String {
    let lines = rules.lines().filter(|line| !line.contains("--nfacct-name  localhost_nps_accepted_pkts "));
    let invalid = " -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts";
    lines.map(|line| line.replace(invalid, "") + "\n").collect()
}
