//! Outputs of one node at two times: of a command that the text shows twice, or that lacks a rule which it would print, and has another one for
//! the same connections.

use std::collections::BTreeSet;

use svclab_rules::iptables::{ChainKind, Match, Rule, RuleSet, TableName, print_rule};

use super::model::{Contents, Evidence, Piece};
use super::node_rules::NodeRules;

/// The most outputs of one rule set that are compared.
const MAX_OUTPUTS: usize = 50;

/// Why a piece is of another time than rules of the same machine, if it is: fills in `the rules from A ... those from B`.
pub(super) fn another_time(evidence: &Evidence, known: &NodeRules, piece: &Piece) -> Option<&'static str> {
    if prints_others(evidence, known, piece) {
        return Some("are printed by the same command like");
    }
    redirects(known, piece).then_some("lead the same connections to other chains than")
}

/// Whether a piece leads connections to another chain of a Service than known rules do, which a filter of a known pattern would have selected as
/// well.
fn redirects(known: &NodeRules, piece: &Piece) -> bool {
    let Contents::Iptables { rules, coverage, .. } = &piece.contents else { return false };
    let is_of_machine = known.file == piece.file && known.host == piece.host && known.heading == piece.heading;
    let Some(all) = known.rules.iptables().filter(|all| is_of_machine && all.family == rules.rules.family) else {
        return false;
    };
    let service = |rule: &Rule| ChainKind::of(rule.next_chain()?).map(|(_, hash)| hash.to_owned());
    let matches = |rule: &Rule| {
        let mut bare = Rule { target: None, ..rule.without_counters() };
        bare.matches.retain(|one| !matches!(one, Match::Comment(_)));
        bare
    };
    let mut chains = rules.rules.tables.iter().flat_map(|table| table.chains.iter().map(move |own| (table.name, own)));
    coverage.has_filters()
        && chains.any(|(table, chain)| {
            let is_lost = |before: &&Rule| {
                let line = print_rule(all.family, &chain.name, &before.without_counters());
                coverage.shows(table.as_str(), &line)
                    && !chain.rules.iter().any(|rule| rule.next_chain() == before.next_chain())
            };
            let is_other = |rule: &Rule, before: &Rule| {
                service(rule).is_some_and(|own| service(before) == Some(own))
                    && rule.next_chain() != before.next_chain()
                    && matches(rule) == matches(before)
            };
            let known = all.rules(table, &chain.name);
            LISTS.contains(&&*chain.name)
                && chain.rules.iter().any(|rule| {
                    !known.iter().any(|before| before.next_chain() == rule.next_chain())
                        && known.iter().filter(is_lost).any(|before| is_other(rule, before))
                })
        })
}

/// The chains with the rules of all Services.
const LISTS: [&str; 2] = ["KUBE-SERVICES", "KUBE-NODEPORTS"];

/// Whether the command of a piece printed a part of some rules before, and prints other rules now: each time some that are missing the other
/// time. Where only lines are missing, the output may have been shortened.
fn prints_others(evidence: &Evidence, known: &NodeRules, piece: &Piece) -> bool {
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
