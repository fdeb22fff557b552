//! The meaning of a rule, however it is written.

use super::ast::Rule;
use super::matches::{Match, Ports};

/// Returns a key that is equal for rules with the same meaning: comments, counters and the order of matches are ignored.
pub(crate) fn canonical_key(rule: &Rule) -> String {
    let mut matches: Vec<String> =
        rule.matches.iter().filter(|one| !one.always_holds()).map(|one| format!("{one:?}")).collect();
    let is_bare = |one: &Match| matches!(one, Match::Ports(ports) if *ports == Ports::any(ports.protocol));
    matches.retain(|text| !rule.matches.iter().any(|one| is_bare(one) && format!("{one:?}") == *text));
    matches.sort();
    let Rule { source, destination, in_interface, out_interface, protocol, fragment, target, .. } = rule;
    format!("{source:?}{destination:?}{in_interface:?}{out_interface:?}{protocol:?}{fragment:?}{target:?}{matches:?}")
}
