//! Scenarios.

use std::io;
use std::path::Path;

use svclab::explain::explain;
use svclab::infer::{AdHocProbe, AdHocScenario};
use svclab::scenario::{Step, parse};
use svclab_rules_fuzz::{Target, corpus};

use super::{are_shown, repository_path};

/// The target.
pub const TARGET: Target = Target { name: "scenario", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [repository_path("scenarios"), repository_path("harness/fuzz/regressions/scenario")];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &[".yaml"])
}

/// A file that a scenario may name.
const OBJECTS: &str = include_str!("../../../../scenarios/kubernetes-objects/manifests/web.yaml");

fn read(path: &Path) -> io::Result<String> {
    match path.extension() {
        Some(_) => Ok(OBJECTS.to_owned()),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// A scenario is rejected with printable errors, or its lab can be planned, its rules generated, and its first probe predicted.
///
/// # Panics
///
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, Path::new("fuzzed.yaml"), &read) {
        Err(errors) => are_shown(&errors, text),
        // An input with so many objects is valid, but slow.
        Ok(scenario) if scenario.cluster.pods.len() + scenario.cluster.nodes.len() > 100 => {}
        Ok(scenario) => {
            let first = scenario.tests.first().and_then(|test| test.steps.first());
            let Some(Step::Probe(probe, _)) = first else { return };
            let (cluster, probes) = (scenario.cluster.clone(), vec![*probe.clone()]);
            let (asked, assumptions) = (AdHocProbe::default(), Vec::new());
            let _ = explain(&AdHocScenario { asked, scenario, cluster, probes, assumptions }, 0, 1);
        }
    }
}
