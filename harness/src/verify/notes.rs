//! Other possible causes of contradictions between prediction and kernel.

use std::collections::BTreeMap;

use super::Options;
use super::finding::Finding;
use crate::predict::is_predicted;
use crate::scenario::Scenario;
use crate::text::{counted, list};

/// How many times flows of a lab may be sent again, alone. Each time flushes the state of all nodes, which takes some milliseconds for each
/// of them; if rules of every Service differ from the prediction, further ones would show nothing new.
pub(super) const MAX_RESENDS: usize = 4_000;

/// The maximum number of settings in a note.
const MAX_LISTED: usize = 5;

/// The notes on findings; without a lab, also the settings whose effect no finding can show. `not_resent` is the number of contradicted
/// flows that were not sent again alone.
pub(super) fn notes(scenario: &Scenario, findings: &[Finding], not_resent: usize, options: &Options) -> Vec<String> {
    let fails = |finding: &Finding| finding.disagreement.fails(options.allow_unknown);
    let mut contradictions = findings.iter().filter(|finding| finding.disagreement.contradicts_prediction());
    let is_contradicted = contradictions.any(fails);
    if !is_contradicted && !options.no_lab {
        return Vec::new();
    }
    let resent = (not_resent > 0).then(|| {
        let flows = counted(not_resent, "flow");
        format!("earlier packets may be the cause for {flows} that svclab did not send again alone")
    });
    let settings = settings(scenario);
    let settings = (!settings.is_empty()).then(|| {
        let why = if options.no_lab {
            ": only a lab shows the effect"
        } else {
            ", which may be why the kernel contradicts them"
        };
        format!("predictions ignore {}{why}", list(&settings, MAX_LISTED))
    });
    resent.into_iter().chain(settings).collect()
}

/// The settings of nodes that predictions ignore, each with its node, or with the number of nodes that have it.
fn settings(scenario: &Scenario) -> Vec<String> {
    let mut nodes: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (node, settings) in &scenario.sysctls {
        for (name, setting) in settings.iter().filter(|(name, _)| !is_predicted(name)) {
            nodes.entry((name, &setting.value)).or_default().push(node);
        }
    }
    let words = |((name, value), nodes): ((&str, &str), Vec<&str>)| match nodes.as_slice() {
        [node] => format!("{name}={value} on node {node}"),
        nodes => format!("{name}={value} on {}", counted(nodes.len(), "node")),
    };
    nodes.into_iter().map(words).collect()
}
