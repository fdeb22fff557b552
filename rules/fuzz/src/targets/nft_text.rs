//! Output of `nft list ruleset` and input of `nft -f`.

use svclab_rules::compare::compare;
use svclab_rules::infer::Infer;
use svclab_rules::nftables::{Ruleset, parse, parse_all, print, print_sync};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "nft_text", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("tests/golden"), rules_folder("fuzz/regressions/nft_text")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &["nft-ruleset.txt", ".nft"])
}

/// Checks that printed tables parse to the same tables.
///
/// # Panics
///
/// If that is not the case.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.trim_start().starts_with('{') {
        return;
    }
    if let Ok(parsed) = parse(text) {
        is_read_back(&parsed.rules);
    }
    let _ = parse_all(text).map(|all| print(&all.rules));
}

/// Checks the properties of kube-proxy's tables, in whichever format they were given.
///
/// # Panics
///
/// If a property does not hold.
pub(super) fn is_read_back(rules: &Ruleset) {
    for printed in [print(rules), print_sync(rules)] {
        let again = parse(&printed).map_err(|errors| errors[0].to_string());
        assert_eq!(again.as_ref().map(|again| &again.rules), Ok(rules), "printed:\n{printed}");
    }
    assert_eq!(compare(rules, rules), []);
    let _ = rules.infer();
}
