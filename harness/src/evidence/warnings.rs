//! What iptables and nft say of each other before their output.

use super::model::Stretch;

/// How iptables-nft says that the kernel has tables of iptables-legacy too, of either family.
const LEGACY: &str = "tables-legacy tables present, use ";

/// Whether a line is such a warning: it belongs to the output, but is no part of it.
pub(super) fn is_warning(line: &str) -> bool {
    let rest = line.strip_prefix("# Warning: ").unwrap_or_default();
    rest.contains(LEGACY) || rest.starts_with("table ") && rest.contains(" is managed by ")
}

/// The lines in which iptables-nft warns of tables of iptables-legacy.
pub(super) fn of_legacy(text: &str) -> Vec<Stretch> {
    let warns = |line: &str| line.contains("# Warning: ip") && line.contains(LEGACY);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| warns(line));
    lines.map(|(line, _)| Stretch { file: None, first: line, last: line }).collect()
}
