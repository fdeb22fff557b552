//! Describes nftables rules.

mod actions;
mod conditions;

use svclab_rules::nftables::{Rule, Statement, Table};
use svclab_rules::walk::Share;

use super::phrases::Words;
use crate::predict::MatchedRule;

/// Describes a rule of a table; `share` is its share of all packets.
pub(super) fn words(matched: &MatchedRule<'_>, rule: &Rule, table: &Table, share: Share) -> Words {
    let among = choices(rule);
    Words {
        why: conditions::words(rule),
        does: actions::words(matched, rule, table),
        is_by_chance: among > 1,
        sharing: (among > 1).then(|| {
            format!(
                "one random number selects among {among}, all equally likely; {share} of all packets take this path"
            )
        }),
    }
}

/// Returns the number of alternatives of a random choice.
fn choices(rule: &Rule) -> usize {
    let of = |statement: &Statement| match statement {
        Statement::Balance(chains) if chains.is_even() => chains.len(),
        Statement::BalanceDnat(destinations) if destinations.is_even() => destinations.len(),
        _ => 1,
    };
    rule.statements.iter().map(of).product()
}
