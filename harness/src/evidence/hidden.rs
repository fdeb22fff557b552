//! What rules lack all at once, although kube-proxy writes it for every Service: `grep -v` took it away, whether its command is shown or not.

use std::collections::HashSet;

use svclab_rules::iptables::{Chain, ChainKind, Match, Rule, RuleSet, Table, TableName, Target};

use super::grep::Patterns;
use super::rules::NodeRules;

/// The fewest chains that lack the same: fewer may have lost it.
const FEWEST: usize = 2;

/// Notes the word without which all lines of iptables' rules are. Then only the lines without it are known to be shown.
pub(super) fn note(set: &mut NodeRules) {
    let Some(rules) = set.rules.iptables() else { return };
    let is_whole = |table: TableName| set.coverage.has_table(table.as_str());
    let Some(word) = hidden(rules, &is_whole) else { return };
    let Some(patterns) = Patterns::without(word) else { return };
    set.coverage.clear();
    set.coverage.pick(None, patterns);
    set.hidden = Some(word);
}

/// A word that lines of kube-proxy have, and that no line of these rules has.
fn hidden(rules: &RuleSet, is_whole: &dyn Fn(TableName) -> bool) -> Option<&'static str> {
    let of_nat = rules.table(TableName::Nat).filter(|_| is_whole(TableName::Nat)).and_then(hidden_of_nat);
    of_nat.or_else(|| rules.tables.iter().filter(|table| is_whole(table.name)).find_map(hidden_chain))
}

fn hidden_of_nat(nat: &Table) -> Option<&'static str> {
    let all = || nat.chains.iter().flat_map(|chain| &chain.rules);
    let endpoints = || nat.chains.iter().filter(|chain| ChainKind::Endpoint.hash(&chain.name).is_some());
    let jumps: HashSet<&str> = all().filter_map(Rule::next_chain).map(|next| &**next).collect();
    let has_rules = endpoints().filter(|chain| !chain.rules.is_empty()).count() >= FEWEST;
    let is_alone = |chain: &&Chain| !jumps.contains(&*chain.name) && !chain.rules.is_empty();
    let has_statistic = |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(_)));
    let has_masq = || {
        nat.chains.iter().any(|chain| chain.name.contains("MASQ"))
            || jumps.iter().any(|next| next.contains("MASQ"))
            || all().any(|rule| matches!(rule.target, Some(Target::Masquerade { .. })))
    };
    match () {
        () if has_rules && !all().any(|rule| matches!(rule.target, Some(Target::Dnat(_)))) => Some("DNAT"),
        () if has_rules && !has_masq() => Some("MASQ"),
        () if hides_endpoints(nat, &jumps) => Some("KUBE-SEP"),
        () if endpoints().filter(is_alone).count() >= FEWEST && !all().any(has_statistic) => Some("statistic"),
        () if nat.chain("KUBE-SERVICES").is_some_and(|chain| chain.rules.is_empty())
            && endpoints().count() >= FEWEST
            && !all().any(|rule| rule.comment().is_some()) =>
        {
            Some("comment")
        }
        () => None,
    }
}

/// Whether there are services' chains that rules lead to, all of them without a rule, and not even the name of an endpoint's chain.
fn hides_endpoints(nat: &Table, jumps: &HashSet<&str>) -> bool {
    let has_endpoints = nat.chains.iter().any(|chain| ChainKind::Endpoint.is_of(&chain.name))
        || jumps.iter().any(|next| ChainKind::Endpoint.is_of(next));
    let services = || nat.chains.iter().filter(|chain| ChainKind::Service.is_of(&chain.name));
    let used = services().filter(|chain| jumps.contains(&*chain.name)).count();
    !has_endpoints && used >= FEWEST && services().all(|chain| chain.rules.is_empty())
}

/// The built-in chain without which a table is that has others of them: the kernel's tables have all.
fn hidden_chain(table: &Table) -> Option<&'static str> {
    let hooks: &[&'static str] = match table.name {
        TableName::Nat => &["PREROUTING", "OUTPUT", "POSTROUTING"],
        TableName::Filter => &["INPUT", "FORWARD", "OUTPUT"],
        _ => &[],
    };
    let is_shown = |hook: &&&str| table.chains.iter().any(|chain| chain.name.contains(**hook));
    let (shown, hidden): (Vec<&&str>, Vec<&&str>) = hooks.iter().partition(is_shown);
    match hidden.as_slice() {
        [only] if shown.len() == hooks.len() - 1 => Some(only),
        _ => None,
    }
}
