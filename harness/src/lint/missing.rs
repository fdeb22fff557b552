//! Rules that an excerpt would show if they were on the node: what `verify` of the same text fails by.

use std::collections::HashSet;
use std::net::SocketAddr;

use svclab_rules::compare::{Difference, Fact, Policy, Subject};
use svclab_rules::infer::InferredPort;

use super::deviation_places::place;
use super::deviations::{self, ELSEWHERE, is_of_settings, is_of_shown_ranges};
use super::finding::Finding;
use super::port_names::port_name;
use super::severity::Severity;
use super::view::View;
use crate::infer::Deviation;

/// The most findings that are listed one by one.
const MAX: usize = 50;

/// The findings; `found` are those of other families.
pub(super) fn find<'f>(view: &View<'_>, deviations: &[Deviation], found: &'f [Finding]) -> Vec<Finding> {
    let of_excerpts = || deviations.iter().filter(|deviation| !deviation.is_whole);
    // Other settings or another release write another rule there.
    let varied: HashSet<&Subject> =
        of_excerpts().filter(|one| is_structure(one) && !is_missing(one)).map(subject).collect();
    // Nor does a release mark connections to cluster IPs whose kube-proxy has no range of pods, which is a finding of its own.
    let marks_nothing = found.iter().any(|finding| finding.id == "no-masquerade");
    let is_setting = |one: &Deviation| match &one.finding.difference {
        Difference::Missing(Fact::Masquerade(Some(_))) => marks_nothing,
        Difference::Missing(Fact::SourceRange(_)) => !is_of_shown_ranges(view, one),
        _ => is_of_settings(one) || is_structure(one) && varied.contains(subject(one)),
    };
    // Objects list it as ready: that the rules lack it is said there.
    let is_listed = |one: &Deviation| match (&one.finding.difference, subject(one)) {
        (Difference::Missing(Fact::Endpoint(_, endpoint)), Subject::Service(name)) => {
            let service = name.split(':').next().unwrap_or_default();
            let ip = endpoint.parse().map(|endpoint: SocketAddr| endpoint.ip().to_string()).unwrap_or_default();
            let mut differing = found.iter().filter(|finding| finding.id == "endpoints-differ");
            differing.any(|finding| {
                let mut words = finding.message.split([' ', ',', ';']);
                words.clone().any(|word| word == ip) && words.any(|word| word.trim_end_matches(':') == service)
            })
        }
        _ => false,
    };
    let is_certain = |one: &&Deviation| !is_setting(one) && !is_listed(one);
    let findings = of_excerpts().filter(is_certain).filter_map(|deviation| finding(view, deviation));
    // Of a Service, several rules may be missing.
    let structure = |finding: &'f Finding| finding.subjects.iter().filter(|own| !matches!(own, Subject::Service(_)));
    let known: HashSet<(&str, &Subject)> =
        found.iter().flat_map(|finding| structure(finding).map(|own| (finding.id, own))).collect();
    let is_new = |one: &Finding| !one.subjects.iter().any(|own| known.contains(&(one.id, own)));
    let mut findings: Vec<Finding> = findings.filter(is_new).collect();
    if let Some((first, mode)) = findings.get(MAX).map(|first| (first.place.clone(), first.mode)) {
        let message = format!("{} more rules are missing", findings.len() - MAX);
        findings.truncate(MAX);
        findings.push(Finding::new("missing-rule", first, message, "see the findings above").with_mode(mode));
    }
    findings
}

fn subject(deviation: &Deviation) -> &Subject {
    &deviation.finding.subject
}

/// Whether it is about rules of no Service.
fn is_structure(deviation: &Deviation) -> bool {
    !matches!(deviation.finding.subject, Subject::Service(_))
}

fn is_missing(deviation: &Deviation) -> bool {
    matches!(deviation.finding.difference, Difference::Missing(_))
}

fn finding(view: &View<'_>, deviation: &Deviation) -> Option<Finding> {
    let subject = match &deviation.finding.subject {
        Subject::Service(service) => port_name(service).to_owned(),
        other => other.to_string(),
    };
    let (id, severity, effect) = match &deviation.finding.difference {
        Difference::LedElsewhere { .. } => ("deviation", Severity::Error, ELSEWHERE),
        Difference::Missing(Fact::Jump(_, effect)) => ("missing-jump", Severity::Error, *effect),
        Difference::Missing(fact) => effect(view, fact).map(|(severity, effect)| ("missing-rule", severity, effect))?,
        _ => return None,
    };
    let place = place(view, deviation);
    let why = if is_missing(deviation) { ": the text would show it if the node had it" } else { "" };
    let message = format!("{subject}: {}{why}", deviation.finding.difference);
    let finding = Finding::new(id, place, message, effect).about([deviation.finding.subject.clone()]);
    Some(finding.graded(severity).with_mode(deviation.mode))
}

/// The severity of a missing fact and its effect on traffic; `None` if the fact depends on settings or endpoints that are assumed.
pub(super) fn effect(view: &View<'_>, fact: &Fact) -> Option<(Severity, &'static str)> {
    let ports = || view.ports.iter().flatten();
    let has =
        |port: &InferredPort, endpoint: &SocketAddr| port.endpoints.contains(endpoint) || port.local.contains(endpoint);
    let is_shown =
        |endpoint: &str| endpoint.parse().is_ok_and(|endpoint: SocketAddr| ports().any(|port| has(port, &endpoint)));
    // Whether the policy admits others than this endpoint.
    let has_others = |policy: Policy, endpoint: &str| {
        let admits_others = |port: &InferredPort, endpoint: &SocketAddr| {
            let admitted = if policy == Policy::Local { &port.local } else { &port.endpoints };
            has(port, endpoint) && admitted.iter().any(|known| known != endpoint)
        };
        endpoint.parse().is_ok_and(|endpoint: SocketAddr| ports().any(|port| admits_others(port, &endpoint)))
    };
    match fact {
        Fact::Entry(_) | Fact::ClusterIp(_) => {
            Some((Severity::Error, "connections to this address reach no endpoint: they are rejected or lost"))
        }
        Fact::Translation(endpoint) if is_shown(endpoint) => Some((
            Severity::Error,
            "connections that jump to this endpoint's chain return without DNAT: they go on to the next endpoint, or are lost",
        )),
        Fact::Endpoint(policy, endpoint) if is_shown(endpoint) => {
            let effect = match has_others(*policy, endpoint) {
                true => "the endpoint gets no connections: other endpoints, or another address, get its share",
                false => "connections that should go to this endpoint, the only one, are lost or rejected",
            };
            Some((Severity::Error, effect))
        }
        Fact::SourceRange(_) => {
            Some((Severity::Error, "connections from this range to the load balancer's address are dropped"))
        }
        Fact::RejectResponse(_) => {
            Some((Severity::Warning, "clients wait until they time out instead of being rejected"))
        }
        Fact::Affinity(_, endpoint) | Fact::Memory(endpoint) if is_shown(endpoint) => {
            Some((Severity::Error, "clients do not come back to their endpoint"))
        }
        Fact::Hairpin(endpoint) if !is_shown(endpoint) => None,
        Fact::Masquerade(_) => Some((Severity::Error, deviations::effect(Some(fact)))),
        Fact::Hairpin(_) => Some((Severity::Warning, deviations::effect(Some(fact)))),
        Fact::Rule(rule) => {
            let severity = if deviations::carries_traffic(rule) { Severity::Error } else { Severity::Warning };
            Some((severity, deviations::effect(Some(fact))))
        }
        _ => None,
    }
}
