//! What `iptables -L` shows.

use svclab_rules::iptables::{parse, parse_listing, print};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "iptables_listing", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("fuzz/corpus/iptables-listing"), rules_folder("fuzz/regressions/iptables_listing")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &[".txt"])
}

/// What is read can be printed as `iptables-save` would show it, and is read back from that as the same, if all of it was understood: words that
/// were not are kept as a match `listing`, which is in no language.
///
/// # Panics
///
/// Where that is not so.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(listing) = parse_listing(text) else { return };
    let printed = print(&listing.rules);
    if printed.contains("-m listing ") {
        return;
    }
    if let Ok(again) = parse(&printed, listing.rules.family) {
        assert_eq!(again.rules, listing.rules, "printed:\n{printed}");
    }
}
