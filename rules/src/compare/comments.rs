//! Comments of rules: they do not change what a rule does, but releases write different ones.

use std::collections::HashMap;

use crate::iptables::{Chain, Rule, RuleSet, canonical_key};
use crate::ruleset::Rules;

/// Maximum number of rules of a table that are compared; of more, this many are, evenly spread.
const MAX_COMPARED: usize = 2000;

/// Maximum number of rules of a chain whose comments are compared.
const MAX_IN_CHAIN: usize = 200;

/// Returns the number of rules that are the same as expected, apart from their comments. Rules without a comment may have lost it.
pub fn differing_comments(expected: &Rules, found: &Rules) -> usize {
    match (expected.iptables(), found.iptables()) {
        (Some(expected), Some(found)) => in_tables(expected, found),
        _ => 0,
    }
}

fn in_tables(expected: &RuleSet, found: &RuleSet) -> usize {
    let of_table = |table: &crate::iptables::Table| {
        let Some(expected) = expected.table(table.name) else { return 0 };
        let chains: HashMap<&str, &Chain> = expected.chains.iter().map(|chain| (&*chain.name, chain)).collect();
        let pairs = table.chains.iter().filter_map(|chain| Some((chain, *chains.get(&*chain.name)?)));
        let pairs = pairs.filter(|(_, expected)| expected.rules.len() <= MAX_IN_CHAIN);
        let rules: Vec<(&Rule, &Chain)> =
            pairs.flat_map(|(chain, expected)| chain.rules.iter().map(move |rule| (rule, expected))).collect();
        let step = rules.len() / MAX_COMPARED + 1;
        rules.into_iter().step_by(step).filter(|(rule, expected)| has_other_comment(rule, expected)).count()
    };
    found.tables.iter().map(of_table).sum()
}

/// Returns whether rules of a chain are like this one, and none has its comment. A comment with an ellipsis was shortened by hand.
fn has_other_comment(rule: &Rule, expected: &Chain) -> bool {
    let Some(comment) = rule.comment().filter(|comment| !comment.contains("...")) else { return false };
    let key = canonical_key(rule);
    let mut same = expected.rules.iter().filter(|one| canonical_key(one) == key).peekable();
    same.peek().is_some() && !same.any(|one| one.comment() == Some(comment))
}
