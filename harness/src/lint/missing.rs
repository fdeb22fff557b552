//! Rules that an excerpt would show if they were on the node: what `verify` of the same text fails by.

use svclab_rules::compare::{Difference, Fact, Subject};
use svclab_rules::infer::InferredPort;

use super::finding::{Finding, Place};
use super::severity::Severity;
use super::view::View;
use crate::infer::Deviation;

/// The most findings that are listed one by one.
const MAX: usize = 50;

pub(super) fn find(view: &View<'_>, deviations: &[Deviation]) -> Vec<Finding> {
    let of_excerpts = deviations.iter().filter(|deviation| !deviation.is_whole);
    let mut findings: Vec<Finding> = of_excerpts.filter_map(|deviation| finding(view, deviation)).collect();
    if let Some(first) = findings.get(MAX).map(|first| first.place.clone()) {
        let message = format!("{} more rules are missing", findings.len() - MAX);
        findings.truncate(MAX);
        findings.push(Finding::new("missing-rule", first, message, "see the findings above"));
    }
    findings
}

fn finding(view: &View<'_>, deviation: &Deviation) -> Option<Finding> {
    let (Subject::Service(service), Difference::Missing(fact)) =
        (&deviation.finding.subject, &deviation.finding.difference)
    else {
        return None;
    };
    let (severity, effect) = effect(view, fact)?;
    let place = Place { file: deviation.file.clone(), line: deviation.line };
    let message = format!("{service}: {fact} is missing: the text would show it if the node had it");
    Some(Finding::new("missing-rule", place, message, effect).graded(severity).with_mode(deviation.mode))
}

/// The severity of a missing fact and its effect on traffic; `None` if the fact depends on settings or endpoints that are assumed.
fn effect(view: &View<'_>, fact: &Fact) -> Option<(Severity, &'static str)> {
    let is_shown = |endpoint: &str| {
        let shows =
            |port: &InferredPort| port.endpoints.iter().chain(&port.local).any(|known| known.to_string() == *endpoint);
        view.ports.iter().flatten().any(shows)
    };
    match fact {
        Fact::Entry(_) | Fact::ClusterIp(_) => {
            Some((Severity::Error, "connections to this address leave the node untranslated and are lost"))
        }
        Fact::Translation(endpoint) if is_shown(endpoint) => Some((
            Severity::Error,
            "connections that jump to this endpoint's chain return without DNAT: they go on to the next endpoint, or are lost",
        )),
        Fact::Endpoint(_, endpoint) if is_shown(endpoint) => {
            Some((Severity::Error, "the endpoint gets no connections, and the others get more than their share"))
        }
        Fact::RejectResponse(_) => {
            Some((Severity::Warning, "clients wait until they time out instead of being rejected"))
        }
        Fact::Affinity(_, endpoint) | Fact::Memory(endpoint) if is_shown(endpoint) => {
            Some((Severity::Warning, "clients do not come back to their endpoint"))
        }
        _ => None,
    }
}
