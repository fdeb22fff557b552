//! Output of `iptables -L`.

use svclab_rules::iptables::{parse, parse_listing, print};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "iptables_listing", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("fuzz/corpus/iptables-listing"), rules_folder("fuzz/regressions/iptables_listing")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &[".txt"])
}

/// Checks that a parsed listing, printed in the format of `iptables-save`, parses to the same rules, unless it contains unknown words,
/// which are kept as a match `listing`.
///
/// # Panics
///
/// If that is not the case.
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
