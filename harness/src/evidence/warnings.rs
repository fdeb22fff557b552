//! What programs say before their output, or of themselves: iptables and nft of each other, their versions, and the mode that IPVS' tools show.

use super::model::Stretch;

/// How iptables-nft says that the kernel has tables of iptables-legacy too, of either family.
const LEGACY: &str = "tables-legacy tables present, use ";

/// What only a node in IPVS mode prints: `ipvsadm`, `ip addr`, and kube-proxy in its log.
const IPVS: [&str; 4] =
    ["IP Virtual Server version ", "Prot LocalAddress:Port Scheduler Flags", "kube-ipvs0: <", "Using ipvs Proxier"];

/// What comes before a version, where programs print their own.
const VERSIONS: [&str; 6] =
    ["iptables v", "ip6tables v", "nftables v", "Client Version: ", "Kustomize Version: ", "Server Version: "];

/// Whether a line is the whole output of a program that is asked for its version.
pub(super) fn is_version(line: &str) -> bool {
    let version = VERSIONS.iter().find_map(|start| line.strip_prefix(start));
    version.is_some_and(|rest| rest.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether a line is such a warning: it belongs to the output, but is no part of it.
pub(super) fn is_warning(line: &str) -> bool {
    let rest = line.trim_start_matches("# ").strip_prefix("Warning: ").unwrap_or_default();
    rest.contains(LEGACY) || rest.starts_with("table ") && rest.contains(" is managed by ")
}

/// The lines in which iptables-nft warns of tables of iptables-legacy.
pub(super) fn of_legacy(text: &str) -> Vec<Stretch> {
    let warns = |line: &str| line.contains("Warning: ip") && line.contains(LEGACY);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| warns(line));
    lines.map(|(line, _)| Stretch { file: None, first: line, last: line }).collect()
}

/// The first line that shows a node in IPVS mode.
pub(super) fn of_ipvs(text: &str) -> Option<Stretch> {
    let shows = |line: &str| IPVS.iter().any(|mark| line.contains(mark));
    let (line, _) = (1..).zip(text.lines()).find(|(_, line)| shows(line))?;
    Some(Stretch { file: None, first: line, last: line })
}
