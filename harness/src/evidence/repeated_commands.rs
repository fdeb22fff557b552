//! Commands that a text shows twice: what they print the second time is of another time.

use std::collections::BTreeSet;

use svclab_rules::iptables::{Rule, RuleSet, TableName, print_rule};

use super::model::{Contents, Evidence, Piece};
use super::node_rules::NodeRules;

/// The most outputs of one rule set that are compared.
const MAX_OUTPUTS: usize = 50;

/// Whether the command of a piece printed a part of some rules before, and prints other rules now: each time some that are missing the other
/// time. Where only lines are missing, the output may have been shortened.
pub(super) fn prints_others(evidence: &Evidence, known: &NodeRules, piece: &Piece) -> bool {
    let (Some(command), Some(rules)) = (&piece.command, filtered_rules(piece)) else { return false };
    let is_same_command = |other: &&Piece| {
        let is_of_set = other.file == known.file && known.saved.contains(&other.first);
        is_of_set
            && other.command.as_ref() == Some(command)
            && other.host == piece.host
            && other.heading == piece.heading
    };
    let mut before = evidence.pieces.iter().filter(is_same_command).filter_map(filtered_rules).peekable();
    if known.saved.len() > MAX_OUTPUTS || before.peek().is_none() {
        return false;
    }
    let own = printed(rules);
    before.any(|before| {
        let before = printed(before);
        !before.is_subset(&own) && !own.is_subset(&before)
    })
}

/// The rules of a piece of which a filter of a known pattern selected the lines.
fn filtered_rules(piece: &Piece) -> Option<&RuleSet> {
    match &piece.contents {
        Contents::Iptables { rules, coverage, .. } if coverage.has_filters() => Some(&rules.rules),
        _ => None,
    }
}

/// The lines of rules as iptables-save prints them.
pub(super) fn printed(rules: &RuleSet) -> BTreeSet<(TableName, String)> {
    let chains = rules.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table.name, chain)));
    let lines = chains.flat_map(|(table, chain)| {
        let line = |rule: &Rule| print_rule(rules.family, &chain.name, &rule.without_counters());
        chain.rules.iter().map(move |rule| (table, line(rule)))
    });
    lines.collect()
}
