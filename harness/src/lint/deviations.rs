//! Whole rules that differ from those that kube-proxy writes for the cluster that they show.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use serde_json::Value;
use svclab_rules::cluster::ProxyMode;
use svclab_rules::compare::{Difference, Fact, Subject};
use svclab_rules::infer::InferredPort;

use super::deviation_places::{fact, place};
use super::finding::{Finding, Place};
use super::preempting::preempting;
use super::severity::Severity;
use super::view::View;
use crate::infer::{Assumed, Assumption, Deviation};
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

/// The deviations that no earlier finding of at least the same severity explains. `failure` returns the severity and the effect on traffic
/// of a missing fact, if they are known.
pub(super) fn find(
    view: &View<'_>,
    assumed: &Assumed,
    found: &[Finding],
    failure: impl Fn(&Fact) -> Option<(Severity, &'static str)>,
) -> Vec<Finding> {
    let unmodelled = unmodelled_sets(&assumed.deviations);
    let is_judged = |deviation: &&Deviation| deviation.is_whole && !unmodelled.contains(&rule_set(deviation));
    let whole = || assumed.deviations.iter().filter(is_judged);
    let serves_no_node_ports = |deviation: &Deviation| {
        let leads = |other: &Deviation| is_of_node(other, deviation) && is_of_settings(other) && !is_missing(other);
        matches!(fact(deviation), Some(Fact::Rule(rule)) if leads_to_node_ports(rule))
            && is_missing(deviation)
            && !whole().any(leads)
    };
    let is_certain = |deviation: &&Deviation| {
        !is_of_settings(deviation) || serves_no_node_ports(deviation) || is_of_shown_ranges(view, deviation)
    };
    // Where a chain has another rule instead, a setting or another release may be the cause.
    let is_varied = |deviation: &Deviation| {
        let is_other = |other: &Deviation| {
            is_of_node(other, deviation) && other.finding.subject == deviation.finding.subject && !is_missing(other)
        };
        is_of_no_service(deviation) && whole().any(is_other)
    };
    // An endpoint on another node reaches itself through the rules there.
    let pods = &assumed.scenario.cluster.pods;
    let is_local_hairpin = |node: &str, fact: &Fact| match fact {
        Fact::Hairpin(endpoint) => endpoint.parse().is_ok_and(|endpoint: SocketAddr| {
            pods.iter().any(|pod| pod.node == node && pod.ips.contains(&endpoint.ip()))
        }),
        _ => false,
    };
    let failure = |deviation: &Deviation| -> Option<&'static str> {
        let Difference::Missing(fact) = &deviation.finding.difference else { return None };
        let (severity, effect) = failure(fact)?;
        let is_certain = severity == Severity::Error || is_local_hairpin(&deviation.node, fact);
        (is_certain && !is_varied(deviation)).then_some(effect)
    };
    let stand_ins = stand_ins(assumed);
    let explained = |deviation| with_stand_ins(&stand_ins, finding(view, deviation, failure(deviation)));
    let findings = whole().filter(is_certain).map(|deviation| (deviation, explained(deviation)));
    let is_new =
        |(deviation, finding): &(&Deviation, Finding)| !found.iter().any(|known| explains(known, deviation, finding));
    let mut findings: Vec<Finding> = findings.filter(is_new).map(|(_, finding)| finding).collect();
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

/// Whether a setting may be the cause that rules do not always show: source ranges of a Service, of which one may leave the others without
/// effect, and the addresses that node ports are served on.
pub(super) fn is_of_settings(deviation: &Deviation) -> bool {
    match fact(deviation) {
        Some(Fact::SourceRange(_)) => true,
        Some(Fact::Rule(rule)) => rule.ends_with("-j KUBE-NODEPORTS"),
        _ => false,
    }
}

/// Whether it is about a source range of a Service whose source ranges an object shows. On nodes within the ranges, kube-proxy also admits the load
/// balancer's own address.
pub(super) fn is_of_shown_ranges(view: &View<'_>, deviation: &Deviation) -> bool {
    let Some(Fact::SourceRange(range)) = fact(deviation) else { return false };
    let address = range.split('/').next().unwrap_or(range);
    let is_of_balancer = |port: &InferredPort| port.load_balancer.iter().any(|ip| ip.to_string() == address);
    let has_ranges = |service: &Value| {
        let ranges = service["spec"]["loadBalancerSourceRanges"].as_array();
        let namespace = service["metadata"]["namespace"].as_str().unwrap_or("default");
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        ranges.is_some_and(|all| !all.is_empty()) && subject(deviation) == format!("{namespace}/{name}")
    };
    !view.ports.iter().flatten().any(is_of_balancer)
        && view.objects_of_kind("Service").any(|(_, service)| has_ranges(service))
}

/// Whether a rule leads to the node ports of all Services. None does where node ports are served on loopback addresses alone, which the rule
/// leaves out.
fn leads_to_node_ports(rule: &str) -> bool {
    rule.starts_with("-A KUBE-SERVICES ") && rule.ends_with("-j KUBE-NODEPORTS") && !rule.contains(" ! -d ")
}

fn is_of_no_service(deviation: &Deviation) -> bool {
    !matches!(deviation.finding.subject, Subject::Service(_))
}

/// The rules of a node: its name, and where they start.
type RuleSetKey<'d> = (&'d str, Option<&'d str>, usize);

fn rule_set(deviation: &Deviation) -> RuleSetKey<'_> {
    (&deviation.node, deviation.file.as_deref(), deviation.line)
}

/// The rule sets with too many deviations in rules of no Service. In nftables, those of each table count by themselves: both families may
/// have the same ones.
fn unmodelled_sets(deviations: &[Deviation]) -> HashSet<RuleSetKey<'_>> {
    let mut counts: HashMap<(RuleSetKey<'_>, Option<&str>), usize> = HashMap::new();
    for deviation in deviations.iter().filter(|deviation| deviation.is_whole && is_of_no_service(deviation)) {
        let table = match &deviation.finding.subject {
            Subject::Table(table) | Subject::Chain { table, .. } | Subject::Set { table, .. } => Some(*table),
            Subject::Service(_) => None,
        };
        let of_nftables = table.filter(|_| deviation.mode == ProxyMode::Nftables);
        *counts.entry((rule_set(deviation), of_nftables)).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > MAX_OF_STRUCTURE).map(|((rules, _), _)| rules).collect()
}

fn is_missing(deviation: &Deviation) -> bool {
    matches!(deviation.finding.difference, Difference::Missing(_))
}

/// Whether two are about the rules of one node.
fn is_of_node(one: &Deviation, other: &Deviation) -> bool {
    (&one.node, &one.file, one.line) == (&other.node, &other.file, other.line)
}

/// Whether a finding that is at least as grave is about the same line, or the same Service or chain.
fn explains(finding: &Finding, deviation: &Deviation, new: &Finding) -> bool {
    let is_there = deviation.finding.line.is_some() && finding.place == new.place;
    finding.severity <= new.severity.min(Severity::Warning)
        && (is_there || finding.is_about(&deviation.finding.subject))
}

/// The addresses that are made up, each with what is said of it.
fn stand_ins(assumed: &Assumed) -> Vec<(String, &str)> {
    let all = assumed.assumptions.iter().filter_map(|assumption| match assumption {
        Assumption::StandIn { address, words } => Some((address.to_string(), words.as_str())),
        _ => None,
    });
    all.collect()
}

/// Says of an address in a finding that it is made up.
fn with_stand_ins(stand_ins: &[(String, &str)], mut finding: Finding) -> Finding {
    let named: Vec<&str> =
        stand_ins.iter().filter(|(address, _)| finding.message.contains(address)).map(|(_, words)| *words).collect();
    named.into_iter().for_each(|words| finding.message.push_str(&format!(" ({words})")));
    finding
}

/// The finding of a deviation; an error if `failure`, its effect on traffic, is known.
fn finding(view: &View<'_>, deviation: &Deviation, failure: Option<&'static str>) -> Finding {
    let compared = &deviation.finding;
    let place = place(view, deviation);
    let message = svclab_rules::compare::Finding { line: None, ..compared.clone() }.to_string();
    let about = |finding: Finding| finding.with_mode(deviation.mode).about([compared.subject.clone()]);
    if let Some(effect) = failure {
        return about(Finding::new("missing-rule", place, message, effect));
    }
    if let Some((severity, effect)) = preempting(view, deviation) {
        return about(Finding::new("deviation", place, message, effect).graded(severity));
    }
    let (severity, effect) = match compared.difference {
        Difference::Unexpected(Fact::SourceRange(_)) => (
            Severity::Error,
            "clients in this range reach the load balancer's address, which the Service does not admit",
        ),
        Difference::LedElsewhere { .. } => (Severity::Error, ELSEWHERE),
        Difference::Unexpected(_) | Difference::Repeated { expected: 0, .. } => {
            (Severity::Info, "none known: a setting that no rule shows may be why it is there")
        }
        _ => (Severity::Warning, effect(fact(deviation))),
    };
    about(Finding::new("deviation", place, message, effect).graded(severity))
}

/// The effect of a frontend that leads to another Service.
pub(super) const ELSEWHERE: &str = "connections to this address reach the endpoints of another Service";

/// The effect of a missing or deviating fact on traffic.
pub(super) fn effect(fact: Option<&Fact>) -> &'static str {
    match fact {
        Some(Fact::Masquerade(_)) => "replies to such connections may bypass this node: then clients do not get them",
        Some(Fact::Hairpin(_)) => "an endpoint that reaches itself through the Service gets no reply",
        Some(Fact::Entry(_) | Fact::ClusterIp(_)) => "connections to this address are not those that the Service gets",
        Some(Fact::Rule(rule)) if is_of_masquerade(rule) => {
            "no connection to a Service is masqueraded: clients get no reply if the reply does not return through this node"
        }
        Some(Fact::Rule(rule)) if leads_to_node_ports(rule) => {
            "connections to node ports of all Services are rejected, or reach another program"
        }
        Some(Fact::Rule(rule)) if leads_on(rule) => {
            "connections from outside to the Service leave its chain untranslated: they are rejected or lost"
        }
        Some(Fact::Rule(rule)) if marks_local(rule) => {
            "connections of the node's own processes to the Service's external addresses keep their source: they get no reply from other nodes"
        }
        Some(Fact::Rule(_) | Fact::Chain(_) | Fact::Jump(..)) => {
            "traffic to all Services that reaches this chain may be handled differently"
        }
        _ => "the rules are not as kube-proxy writes them for this Service",
    }
}

/// Whether traffic fails without a rule of kube-proxy.
pub(super) fn carries_traffic(rule: &str) -> bool {
    is_of_masquerade(rule)
        || rule.starts_with("-A KUBE-POSTROUTING ") && rule.ends_with("-j RETURN")
        || leads_to_node_ports(rule)
        || leads_on(rule)
        || marks_local(rule)
}

/// Whether a rule of a Service's external traffic leads all of it on: `-A KUBE-EXT-... -j KUBE-SVL-...`.
fn leads_on(rule: &str) -> bool {
    let words: Vec<&str> = rule.split(' ').collect();
    let is_external = |chain: &str| ["KUBE-EXT-", "KUBE-FW-"].iter().any(|prefix| chain.starts_with(prefix));
    matches!(words.as_slice(), ["-A", chain, "-j", next] if is_external(chain) && next.starts_with("KUBE-S"))
}

/// Whether a rule marks connections of the node's own processes to a Service's external addresses.
fn marks_local(rule: &str) -> bool {
    rule.starts_with("-A KUBE-EXT-") && rule.ends_with("--src-type LOCAL -j KUBE-MARK-MASQ")
}

/// Whether a rule is one that all masquerading depends on: that which marks, and that which masquerades what is marked.
fn is_of_masquerade(rule: &str) -> bool {
    rule.starts_with("-A KUBE-MARK-MASQ ") || rule.starts_with("-A KUBE-POSTROUTING ") && rule.contains("-j MASQUERADE")
}
