//! Output of `iptables-save` and input of `iptables-restore`.

use svclab_rules::cluster::Family;
use svclab_rules::compare::compare;
use svclab_rules::infer::Infer;
use svclab_rules::iptables::evaluate::Program;
use svclab_rules::iptables::{parse, print};

use super::rules_folder;
use crate::{Target, corpus};

/// The target.
pub const TARGET: Target = Target { name: "iptables_save", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [rules_folder("tests/golden"), rules_folder("fuzz/regressions/iptables_save")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &["tables-save.txt", ".rules"])
}

/// Checks that printed rules parse to the same rules, do not differ from themselves, and can be compiled and explained.
///
/// # Panics
///
/// If that is not the case.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for family in Family::ALL {
        let Ok(parsed) = parse(text, family) else { continue };
        let printed = print(&parsed.rules);
        let again = parse(&printed, family).map_err(|errors| errors[0].to_string());
        assert_eq!(again.as_ref().map(|again| &again.rules), Ok(&parsed.rules), "{family}, printed:\n{printed}");
        assert_eq!(compare(&parsed.rules, &parsed.rules), [], "{family}");
        let _ = Program::compile(&parsed.rules);
        let _ = parsed.rules.infer();
    }
}
