//! Wording that the renderers share.

use svclab_rules::cluster::Family;

use super::{Cause, TestReport, Trouble};
use crate::scenario::{Probe, Step, Test};
pub(crate) use crate::text::duration;

/// A probe in one line: `pod/client > service/nginx:80 tcp`.
pub(crate) fn probe_words(probe: &Probe) -> String {
    let port = probe.source_port.map(|port| format!(" from port {port}")).unwrap_or_default();
    let via = probe.to.via.as_ref().filter(|node| !probe.to.label.ends_with(&format!("@{node}")));
    let via = via.map(|node| format!(" via node/{node}")).unwrap_or_default();
    let flags = probe.tcp_flags.map(|flags| format!(" [{flags}]")).unwrap_or_default();
    format!("{} > {} {}{flags}{}{port}{via}", probe.from, probe.to.label, probe.protocol, probe.shape)
}

/// The probes of a test in order, one line each: see [`probe_words`]. If there are several, the line starts with the number of the step; if
/// a step has one for each address family, the family follows.
pub(crate) fn probe_titles(test: &Test) -> Vec<String> {
    // A step as written has one probe for each address family.
    let mut steps: Vec<Vec<&Probe>> = Vec::new();
    for step in &test.steps {
        let probes = probes_of(step);
        let is_twin = |before: &&mut Vec<&Probe>| match (before.first(), probes.first()) {
            (Some(one), Some(other)) => one.span == other.span,
            _ => false,
        };
        match steps.last_mut().filter(is_twin) {
            Some(before) => before.extend(probes),
            None => steps.push(probes),
        }
    }
    let are_several = steps.len() > 1;
    let titles = (1..).zip(&steps).flat_map(|(number, probes)| {
        let number = if are_several { format!("step {number}: ") } else { String::new() };
        probes.iter().map(move |probe| {
            let twins = probes.iter().filter(|other| other.span == probe.span).count();
            let family = if twins > 1 { format!(" over {}", Family::of(probe.to.address)) } else { String::new() };
            format!("{number}{}{family}", probe_words(probe))
        })
    });
    titles.collect()
}

/// The probes of a step.
fn probes_of(step: &Step) -> Vec<&Probe> {
    match step {
        Step::Probe(probe, _) => vec![probe],
        Step::During(during) => during.probes.iter().map(|one| &one.probe).collect(),
        Step::Change(_) | Step::Wait(_) => Vec::new(),
    }
}

/// The error of a test; a test without probes has an error of its own.
pub(super) fn trouble(test: &TestReport) -> Option<Trouble> {
    let nothing = || Trouble { cause: Cause::Input, message: "no probe was sent".to_owned(), help: None, span: None };
    test.error.clone().or_else(|| test.probes.is_empty().then(nothing))
}

/// The first failure of a test, in one line.
pub(super) fn headline(test: &TestReport) -> Option<String> {
    let differences: Vec<String> =
        test.probes.iter().flat_map(|probe| &probe.judgment.differences).map(ToString::to_string).collect();
    let more = |first: &String| match differences.len() {
        1 => first.clone(),
        count => format!("{first} (and {} more)", count - 1),
    };
    trouble(test).map(|trouble| trouble.message).or_else(|| differences.first().map(more))
}
