//! Output of `nft -j list ruleset`.

use svclab_rules::compare::compare;
use svclab_rules::infer::Infer;
use svclab_rules::nftables::{parse, print};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "nft_json", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("fuzz/corpus/nft-json"), rules_folder("fuzz/regressions/nft_json")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &[".json"])
}

/// Checks that parsed tables do not differ from themselves, and can be printed and explained.
///
/// # Panics
///
/// If that is not the case.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if !text.trim_start().starts_with('{') {
        return;
    }
    let Ok(parsed) = parse(text) else { return };
    // Expressions that are not modelled are printed as JSON, which nft's own language does not accept.
    let _ = print(&parsed.rules);
    assert_eq!(compare(&parsed.rules, &parsed.rules), []);
    let _ = parsed.rules.infer();
}
