//! Whole rules that differ from those that kube-proxy writes for the cluster that they show.

use svclab_rules::compare::{Difference, Fact, Subject};

use super::finding::{Finding, Place};
use super::severity::Severity;
use super::view::View;
use crate::infer::Deviation;
use crate::text::grouped;

/// The most findings that are listed one by one.
const MAX: usize = 50;

/// The most rules that are compared: a cluster is made of them for that, which takes longer than all other findings.
pub(super) const MAX_RULES: usize = 20_000;

/// The deviations in rules of no Service from which on rules are taken as shortened by hand, or as those of a program that is not modelled.
const MAX_OF_STRUCTURE: usize = 8;

/// The finding that there are too many rules to compare.
pub(super) fn not_compared(view: &View<'_>) -> Option<Finding> {
    let node = view.nodes.first()?;
    let place = Place { file: node.file.clone(), line: node.first };
    let message = format!("more than {} rules are not compared with those of kube-proxy", grouped(MAX_RULES as u64));
    let effect = "no effect; `svclab rules --diff` compares them with the rules of a scenario or of objects";
    Some(Finding::new("deviation", place, message, effect).graded(Severity::Info))
}

/// The deviations that no finding so far explains.
pub(super) fn find(deviations: &[Deviation], found: &[Finding]) -> Vec<Finding> {
    let whole = || deviations.iter().filter(|deviation| deviation.is_whole);
    let of_no_service = whole().filter(|deviation| !matches!(deviation.finding.subject, Subject::Service(_)));
    if of_no_service.count() > MAX_OF_STRUCTURE {
        return Vec::new();
    }
    let uncertain: Vec<&str> = whole().filter(|deviation| is_of_settings(deviation)).map(subject).collect();
    let is_certain = |deviation: &&Deviation| !uncertain.contains(&subject(deviation));
    let is_new = |deviation: &&Deviation| !found.iter().any(|finding| explains(finding, deviation));
    let mut findings: Vec<Finding> = whole().filter(is_certain).filter(is_new).map(finding).collect();
    if let Some(first) = findings.get(MAX).map(|first| first.place.clone()) {
        let message = format!("{} more rules are not as kube-proxy writes them", findings.len() - MAX);
        findings.truncate(MAX);
        findings.push(Finding::new("deviation", first, message, "see the findings above"));
    }
    findings
}

/// The name of a Service without its port, or of a chain or set.
pub(super) fn subject(deviation: &Deviation) -> &str {
    match &deviation.finding.subject {
        Subject::Service(name) => name.split_once(':').map_or(name, |(service, _)| service),
        Subject::Table(name) => name,
        Subject::Chain { name, .. } | Subject::Set { name, .. } => name,
    }
}

fn fact(deviation: &Deviation) -> Option<&Fact> {
    match &deviation.finding.difference {
        Difference::Missing(fact)
        | Difference::Unexpected(fact)
        | Difference::Changed { fact, .. }
        | Difference::Repeated { fact, .. } => Some(fact),
        _ => None,
    }
}

/// Whether a setting may be the cause that rules do not always show: source ranges of a Service, of which one may leave the others without
/// effect, and the addresses that node ports are served on.
pub(super) fn is_of_settings(deviation: &Deviation) -> bool {
    match fact(deviation) {
        Some(Fact::SourceRange(_)) => true,
        Some(Fact::Rule(rule)) => rule.ends_with("-j KUBE-NODEPORTS"),
        _ => false,
    }
}

/// Whether a finding is about the same line, or the same Service or chain.
fn explains(finding: &Finding, deviation: &Deviation) -> bool {
    let is_there = Some(finding.place.line) == deviation.finding.line && finding.place.file == deviation.file;
    finding.severity <= Severity::Warning && (is_there || finding.message.contains(subject(deviation)))
}

fn finding(deviation: &Deviation) -> Finding {
    let compared = &deviation.finding;
    let place = Place { file: deviation.file.clone(), line: compared.line.unwrap_or(deviation.line) };
    let message = svclab_rules::compare::Finding { line: None, ..compared.clone() }.to_string();
    // A setting that no rule shows may be why a rule is there.
    let severity = match compared.difference {
        Difference::Unexpected(_) => Severity::Info,
        _ => Severity::Warning,
    };
    Finding::new("deviation", place, message, effect(fact(deviation))).graded(severity).with_mode(deviation.mode)
}

/// The effect of a missing or deviating fact on traffic.
pub(super) fn effect(fact: Option<&Fact>) -> &'static str {
    match fact {
        Some(Fact::Masquerade(_)) => "replies to such connections may bypass this node: then clients do not get them",
        Some(Fact::Hairpin(_)) => "an endpoint that reaches itself through the Service gets no reply",
        Some(Fact::Entry(_) | Fact::ClusterIp(_)) => "connections to this address are not those that the Service gets",
        Some(Fact::Rule(rule)) if is_of_masquerade(rule) => {
            "no connection to a Service is masqueraded: clients get no reply if the reply does not return through this node"
        }
        Some(Fact::Rule(_) | Fact::Chain(_) | Fact::Jump(..)) => {
            "traffic to all Services that reaches this chain may be handled differently"
        }
        _ => "the rules are not as kube-proxy writes them for this Service",
    }
}

/// Whether a rule is one that all masquerading depends on: that which marks, and that which masquerades what is marked.
fn is_of_masquerade(rule: &str) -> bool {
    rule.starts_with("-A KUBE-MARK-MASQ ") || rule.starts_with("-A KUBE-POSTROUTING ") && rule.contains("-j MASQUERADE")
}
