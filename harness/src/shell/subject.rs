//! The cluster that a shell works on, and requests to it in the form of a scenario.

use std::path::{Path, PathBuf};

use svclab_rules::cluster::Cluster;

use super::places::deleted;
use super::reply::Printed;
use crate::infer::{AdHocChange, AdHocProbe, AdHocScenario, Assumption, with_changes};
use crate::input::{Diagnostics, Reach};
use crate::scenario::{Change, Scenario, Vantage, pod_label};

/// The cluster that a shell works on: a scenario, and the state that its cluster is in.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The scenario.
    pub scenario: Scenario,
    /// The assumptions made for plain Kubernetes objects.
    pub assumptions: Vec<Assumption>,
    /// The cluster as it is now.
    pub(super) cluster: Cluster,
    /// The number of changes by the scenario's steps.
    pub(super) step: usize,
    /// The changes made in the shell since then.
    pub(super) changes: Vec<AdHocChange>,
    text: String,
    path: PathBuf,
    reach: Reach,
}

/// Reads the text of a scenario or of Kubernetes objects, in the state after this many changes by the scenario's steps.
///
/// # Errors
///
/// All errors of the text, and of the files that it names.
pub fn read(text: String, path: PathBuf, reach: Reach, step: usize) -> Result<Subject, Diagnostics> {
    let at = AdHocProbe { step, ..AdHocProbe::default() };
    let (read, _) = changed(&text, (&path, reach), at, false, &[])?;
    let AdHocScenario { scenario, cluster, assumptions, .. } = read;
    Ok(Subject { scenario, assumptions, cluster, step, changes: Vec::new(), text, path, reach })
}

fn changed(
    text: &str,
    (path, reach): (&Path, Reach),
    probe: AdHocProbe,
    is_sent: bool,
    changes: &[AdHocChange],
) -> Result<(AdHocScenario, Option<Change>), Diagnostics> {
    with_changes(text, path, &probe, is_sent, changes, &reach.reader(path))
}

impl Subject {
    /// Resolves a probe, written as in a scenario, in the current state.
    ///
    /// # Errors
    ///
    /// What is wrong with it. A deleted pod cannot send.
    pub(super) fn with_probe(&self, probe: AdHocProbe) -> Result<AdHocScenario, Printed> {
        let probe = AdHocProbe { step: self.step, ..probe };
        let (resolved, _) = changed(&self.text, (&self.path, self.reach), probe, true, &self.changes)?;
        if let Some(Vantage::Pod(pod)) = resolved.probes.first().map(|probe| &probe.from)
            && self.cluster.pod(pod).is_none()
        {
            return Err(deleted(&pod_label(pod)));
        }
        Ok(AdHocScenario { cluster: self.cluster.clone(), scenario: self.scenario.clone(), ..resolved })
    }

    /// Resolves one more change, and returns it with notes.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn with_change(&self, change: &AdHocChange) -> Result<(Change, Vec<String>), Diagnostics> {
        let changes: Vec<AdHocChange> = self.changes.iter().chain([change]).cloned().collect();
        let at = AdHocProbe { step: self.step, ..AdHocProbe::default() };
        let (after, made) = changed(&self.text, (&self.path, self.reach), at, false, &changes)?;
        let own = after.scenario.notes.iter().filter(|note| note.span.file == change.file());
        let notes = own.map(|note| note.message.clone()).collect();
        Ok((made.unwrap_or_else(|| Change::State(Box::new(after.cluster))), notes))
    }
}
