//! What `nft list ruleset` shows, and what `nft -f` takes.

use svclab_rules::compare::compare;
use svclab_rules::infer::Show;
use svclab_rules::nftables::{Ruleset, parse, parse_all, print, print_sync};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "nft_text", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("tests/golden"), rules_folder("fuzz/regressions/nft_text")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &["nft-ruleset.txt", ".nft"])
}

/// What is read is read back from its print as the same.
///
/// # Panics
///
/// Where that is not so.
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

/// Checks what must hold of kube-proxy's tables, in whatever form they came.
///
/// # Panics
///
/// Where it does not.
pub(super) fn is_read_back(rules: &Ruleset) {
    for printed in [print(rules), print_sync(rules)] {
        let again = parse(&printed).map_err(|errors| errors[0].to_string());
        assert_eq!(again.as_ref().map(|again| &again.rules), Ok(rules), "printed:\n{printed}");
    }
    assert_eq!(compare(rules, rules), []);
    let _ = rules.show();
}
