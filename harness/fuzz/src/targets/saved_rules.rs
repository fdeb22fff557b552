//! Saved rules from which scenarios are inferred, for `dump import`, `dump minimize`, `verify` and others.

use std::path::Path;

use svclab::evidence::read;
use svclab::infer::{Connections, from_evidence};
use svclab_rules_fuzz::{Target, corpus};

use super::{are_shown, repository_path};

/// The target.
pub const TARGET: Target = Target { name: "saved_rules", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [repository_path("rules/tests/golden"), repository_path("harness/fuzz/regressions/saved_rules")];
    let rules = corpus::files(
        &folders.each_ref().map(AsRef::as_ref),
        &["v1.30-iptables/iptables-save.txt", "nft-ruleset.txt", ".rules"],
    );
    // With objects, tables of kubectl and connections, as in real evidence.
    rules.into_iter().chain((super::evidence::TARGET.corpus)()).collect()
}

/// Rules are rejected with printable errors, or give a scenario.
///
/// # Panics
///
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(errors) = from_evidence(&read(text), Path::new("fuzzed.txt"), &[], Connections::LeftOut) {
        are_shown(&errors, text);
    }
}
