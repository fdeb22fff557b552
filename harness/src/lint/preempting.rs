//! Rules in kube-proxy's chains that kube-proxy writes nowhere, and that decide about packets before the rules behind them do.

use svclab_rules::compare::{Difference, Fact, is_own_chain};
use svclab_rules::iptables::{self, Match, TableName, Target};
use svclab_rules::nftables::{self, Statement, Verdict};

use super::deviation_places::rules_of;
use super::severity::Severity;
use super::view::{Tables, View};
use crate::evidence::NodeRules;
use crate::infer::Deviation;

/// What a rule does to packets that kube-proxy's rules are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Drops,
    Rejects,
    /// They do not reach the rules behind it.
    Skips(Task),
}

/// What the rules of a chain are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Balancing,
    Masquerading,
    /// They accept, drop or reject, and translate nothing.
    Filtering,
}

/// The severity of such a rule, and its effect on traffic; `None` for other deviations.
pub(super) fn preempting(view: &View<'_>, deviation: &Deviation) -> Option<(Severity, &'static str)> {
    let (Difference::Unexpected(Fact::Rule(_)) | Difference::Repeated { fact: Fact::Rule(_), expected: 0, .. }) =
        deviation.finding.difference
    else {
        return None;
    };
    let line = deviation.finding.line?;
    let node = rules_of(view, deviation)?;
    let (action, is_of_all) = match view.tables().find(|tables| std::ptr::eq(tables.node, node)) {
        Some(tables) => in_iptables(tables, line)?,
        None => in_nftables(node, line)?,
    };
    Some(effect(action, is_of_all))
}

fn effect(action: Action, is_of_all: bool) -> (Severity, &'static str) {
    use Severity::{Error, Warning};
    match (action, is_of_all) {
        (Action::Drops, true) => (Error, "all packets that reach this rule are dropped"),
        (Action::Drops, false) => (Warning, "packets that match it are dropped"),
        (Action::Rejects, true) => (Error, "all packets that reach this rule are rejected"),
        (Action::Rejects, false) => (Warning, "packets that match it are rejected"),
        (Action::Skips(Task::Filtering), true) => (Warning, "no packet reaches kube-proxy's rules behind this one"),
        (Action::Skips(Task::Filtering), false) => {
            (Warning, "packets that match it do not reach kube-proxy's rules behind it")
        }
        (Action::Skips(_), true) => {
            (Error, "no packet reaches the rules behind this one: kube-proxy's rules there have no effect")
        }
        (Action::Skips(Task::Masquerading), false) => {
            (Warning, "packets that match it do not reach kube-proxy's rules behind it, and are not masqueraded")
        }
        (Action::Skips(Task::Balancing), false) => {
            (Warning, "packets that match it do not reach kube-proxy's rules behind it, and are not load-balanced")
        }
    }
}

/// What the rule in a line does, if it decides about packets, and whether it matches all of them.
fn in_iptables(tables: Tables<'_>, line: usize) -> Option<(Action, bool)> {
    let placed = tables.rules().find(|placed| placed.line.number == line && is_own_chain(&placed.chain.name))?;
    let is_last = placed.chain.rules.last().is_some_and(|last| std::ptr::eq(last, placed.rule));
    let task = match (placed.table, &*placed.chain.name) {
        (TableName::Nat, "KUBE-POSTROUTING" | "KUBE-MARK-MASQ") => Task::Masquerading,
        (TableName::Nat, _) => Task::Balancing,
        _ => Task::Filtering,
    };
    let action = match placed.rule.target {
        Some(Target::Drop) => Action::Drops,
        Some(Target::Reject(_)) => Action::Rejects,
        _ if is_last => return None,
        _ => Action::Skips(task),
    };
    decides(&placed.chain.name, placed.rule).then(|| (action, placed.rule.is_unconditional()))
}

/// Whether a rule decides about packets as no rule of kube-proxy's does in this chain.
fn decides(chain: &str, rule: &iptables::Rule) -> bool {
    let names_port = || rule.matches.iter().any(|one| matches!(one, Match::Ports(_)));
    match rule.target {
        // What kube-proxy writes for a frontend without endpoints, or with source ranges.
        Some(Target::Drop | Target::Reject(_)) => !names_port(),
        // What kube-proxy writes for a health check.
        Some(Target::Accept) => !(chain == "KUBE-NODEPORTS" && names_port()),
        Some(
            Target::Return | Target::Dnat(_) | Target::Snat(_) | Target::Redirect { .. } | Target::Masquerade { .. },
        ) => true,
        _ => false,
    }
}

fn in_nftables(node: &NodeRules, line: usize) -> Option<(Action, bool)> {
    let parsed = node.rules.nftables()?;
    parsed.rules.tables.iter().enumerate().find_map(|(table_at, table)| {
        table.chains.iter().enumerate().find_map(|(chain_at, chain)| {
            let is_there = |at: &usize| parsed.lines.rule(table_at, chain_at, *at) == Some(line);
            let at = (0..chain.rules.len()).find(is_there)?;
            let rule: &nftables::Rule = &chain.rules[at];
            let action = rule.statements.iter().find_map(|statement| action(statement, chain))?;
            let is_last = at + 1 == chain.rules.len();
            let is_preempting = !is_last || !matches!(action, Action::Skips(_));
            is_preempting.then_some((action, rule.conditions.is_empty()))
        })
    })
}

/// What a statement does that ends the evaluation of a chain.
fn action(statement: &Statement, chain: &nftables::Chain) -> Option<Action> {
    let filters = |name: &str| name.ends_with("-check") || name == "reject-chain";
    let task = match &*chain.name {
        "nat-postrouting" | "masquerading" | "mark-for-masquerade" => Task::Masquerading,
        name if filters(name) || chain.base.is_some_and(|base| !base.nat) => Task::Filtering,
        _ => Task::Balancing,
    };
    match statement {
        Statement::Verdict(Verdict::Drop) => Some(Action::Drops),
        Statement::Reject(_) => Some(Action::Rejects),
        Statement::Verdict(Verdict::Accept | Verdict::Return)
        | Statement::Dnat(_)
        | Statement::DnatAddress(_)
        | Statement::Snat(..)
        | Statement::Masquerade { .. } => Some(Action::Skips(task)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::Severity::{Error, Warning};
    use crate::lint::{Severity, lint};

    /// Only table `nat` balances; what table `filter` accepts skips no translation.
    #[rstest]
    #[case::translation("-A KUBE-SERVICES -s 10.1.0.0/16 -j RETURN", Warning, "not load-balanced")]
    #[case::all_translation("-A KUBE-SERVICES -j RETURN", Error, "have no effect")]
    #[case::masquerade("-A KUBE-POSTROUTING -s 10.1.0.0/16 -j RETURN", Warning, "not masqueraded")]
    #[case::accepted("-A KUBE-FORWARD -s 10.1.0.0/16 -j ACCEPT", Warning, "kube-proxy's rules behind it")]
    #[case::all_accepted("-A KUBE-FORWARD -j ACCEPT", Warning, "kube-proxy's rules behind this one")]
    #[case::dropped("-A KUBE-FORWARD -s 10.1.0.0/16 -j DROP", Warning, "packets that match it are dropped")]
    #[case::rejected("-A KUBE-FORWARD -s 10.1.0.0/16 -j REJECT", Warning, "packets that match it are rejected")]
    #[case::all_rejected("-A KUBE-FORWARD -j REJECT", Error, "all packets that reach this rule are rejected")]
    fn the_effect_depends_on_the_table_and_the_target(
        #[case] rule: &str,
        #[case] severity: Severity,
        #[case] effect: &str,
    ) {
        let text =
            std::fs::read_to_string("../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt").unwrap();
        let chain = rule.split_inclusive(' ').take(2).collect::<String>();
        // That of the table with the chain's first rule: nat, where both have rules.
        let (before, after) = text.rsplit_once("*nat").filter(|(_, nat)| nat.contains(&chain)).unwrap_or(("", &text));
        let heading = if before.is_empty() { "" } else { "*nat" };
        let text = format!("{before}{heading}{}", after.replacen(&chain, &format!("{rule}\n{chain}"), 1));
        let found = lint(&read(&text));
        let own: Vec<_> = found.iter().filter(|one| one.id == "deviation" && one.effect.ends_with(effect)).collect();
        assert_eq!(own.iter().map(|one| one.severity).collect::<Vec<_>>(), [severity], "{found:?}");
    }

    #[rstest]
    #[case::translation("services", "ip saddr 10.1.0.0/16 return", "not load-balanced")]
    #[case::masquerade("masquerading", "ip saddr 10.1.0.0/16 return", "not masqueraded")]
    #[case::base("filter-forward", "ip saddr 10.1.0.0/16 accept", "kube-proxy's rules behind it")]
    #[case::check("service-endpoints-check", "ip saddr 10.1.0.0/16 accept", "kube-proxy's rules behind it")]
    #[case::dropped("services", "ip saddr 10.1.0.0/16 drop", "packets that match it are dropped")]
    fn chains_of_nftables_are_told_apart(#[case] chain: &str, #[case] rule: &str, #[case] effect: &str) {
        let text =
            std::fs::read_to_string("../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt").unwrap();
        let (before, after) = text.split_once(&format!("\tchain {chain} {{\n")).unwrap();
        // A base chain starts with its hook.
        let hook = if chain.starts_with("filter-") { after.find('\n').unwrap() + 1 } else { 0 };
        let (hook, rules) = after.split_at(hook);
        let found = lint(&read(&format!("{before}\tchain {chain} {{\n{hook}\t\t{rule}\n{rules}")));
        let own: Vec<_> = found.iter().filter(|one| one.id == "deviation" && one.effect.ends_with(effect)).collect();
        assert_eq!(own.iter().map(|one| one.severity).collect::<Vec<_>>(), [Warning], "{found:?}");
    }
}
