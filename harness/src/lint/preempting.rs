//! Rules in kube-proxy's chains that kube-proxy writes nowhere, and that decide about packets before the rules behind them do.

use svclab_rules::compare::{Difference, Fact, is_own_chain};
use svclab_rules::iptables::{self, Match, Target};
use svclab_rules::nftables::{self, Statement, Verdict};

use super::deviation_places::rules_of;
use super::severity::Severity;
use super::view::{Tables, View};
use crate::evidence::NodeRules;
use crate::infer::Deviation;

/// The severity of such a rule, and its effect on traffic; `None` for other deviations.
pub(super) fn preempting(view: &View<'_>, deviation: &Deviation) -> Option<(Severity, &'static str)> {
    let (Difference::Unexpected(Fact::Rule(_)) | Difference::Repeated { fact: Fact::Rule(_), expected: 0, .. }) =
        deviation.finding.difference
    else {
        return None;
    };
    let line = deviation.finding.line?;
    let node = rules_of(view, deviation)?;
    let is_of_all = match view.tables().find(|tables| std::ptr::eq(tables.node, node)) {
        Some(tables) => in_iptables(tables, line)?,
        None => in_nftables(node, line)?,
    };
    Some(match is_of_all {
        true => {
            (Severity::Error, "no packet reaches the rules behind this one: kube-proxy's rules there have no effect")
        }
        false => (
            Severity::Warning,
            "packets that match it do not reach kube-proxy's rules behind it, and are not load-balanced",
        ),
    })
}

/// Whether the rule in a line matches all packets, if it decides about them.
fn in_iptables(tables: Tables<'_>, line: usize) -> Option<bool> {
    let placed = tables.rules().find(|placed| placed.line.number == line && is_own_chain(&placed.chain.name))?;
    let is_last = placed.chain.rules.last().is_some_and(|last| std::ptr::eq(last, placed.rule));
    (!is_last && decides(&placed.chain.name, placed.rule)).then(|| placed.rule.is_unconditional())
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

fn in_nftables(node: &NodeRules, line: usize) -> Option<bool> {
    let parsed = node.rules.nftables()?;
    parsed.rules.tables.iter().enumerate().find_map(|(table_at, table)| {
        table.chains.iter().enumerate().find_map(|(chain_at, chain)| {
            let is_there = |at: &usize| parsed.lines.rule(table_at, chain_at, *at) == Some(line);
            let at = (0..chain.rules.len()).find(is_there)?;
            let rule: &nftables::Rule = &chain.rules[at];
            let is_last = at + 1 == chain.rules.len();
            (!is_last && rule.statements.iter().any(ends)).then_some(rule.conditions.is_empty())
        })
    })
}

/// Whether a statement ends the evaluation of the chain.
fn ends(statement: &Statement) -> bool {
    match statement {
        Statement::Verdict(verdict) => matches!(verdict, Verdict::Accept | Verdict::Drop | Verdict::Return),
        Statement::Reject(_) | Statement::Dnat(_) | Statement::DnatAddress(_) | Statement::Snat(..) => true,
        Statement::Masquerade { .. } => true,
        _ => false,
    }
}
