//! The places of a lab in which programs run.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use svclab_rules::cluster::Cluster;

use super::door::Door;
use super::hosts;
use super::names::Names;
use super::reply::Printed;
use crate::input::did_you_mean;
use crate::lab::{Entrance, Lab, LabError};
use crate::scenario::Scenario;
use crate::text::reason;
use crate::topology::{Role, pod_label};

/// The namespace of names that nodes and outside hosts look up.
const DEFAULT: &str = "default";

/// The places of a lab, by name: `pod/client`, `node/worker`, `host/outside`.
pub(super) struct Places {
    all: BTreeMap<String, Place>,
    /// The PID namespace of all programs.
    pids: OwnedFd,
    /// Pods that the cluster does not have, in its present state.
    gone: Mutex<BTreeSet<String>>,
    /// The names of its present state, for completion.
    names: Mutex<Names>,
}

struct Place {
    entrance: Entrance,
    /// The Kubernetes namespace of a pod.
    namespace: String,
}

impl Places {
    /// The places of a lab for the pods of a scenario; pods with `hostNetwork` are on their node.
    ///
    /// # Errors
    ///
    /// If the namespaces cannot be opened.
    pub(super) fn of(lab: &Lab, cluster: &Cluster, pids: OwnedFd) -> Result<Self, LabError> {
        let mut all = BTreeMap::new();
        let namespaces = &lab.topology().namespaces;
        for (id, netns) in namespaces.iter().enumerate().filter(|(_, netns)| netns.role != Role::Underlay) {
            let place = Place { entrance: lab.entrance(id)?, namespace: namespace_of(&netns.name).to_owned() };
            all.insert(netns.name.clone(), place);
        }
        for pod in cluster.pods.iter().filter(|pod| pod.host_network) {
            let Some(id) = lab.topology().find(&format!("node/{}", pod.node)) else { continue };
            let place = Place { entrance: lab.entrance(id)?, namespace: pod.name.namespace.clone() };
            all.insert(pod_label(&pod.name), place);
        }
        Ok(Self { all, pids, gone: Mutex::default(), names: Mutex::default() })
    }

    /// The names of all places that are there now.
    pub(super) fn names(&self) -> Vec<String> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        self.all.keys().filter(|name| !gone.contains(*name)).cloned().collect()
    }

    /// The Kubernetes namespaces that names are looked up in.
    pub(super) fn namespaces(&self) -> BTreeSet<&str> {
        self.all.values().map(|place| place.namespace.as_str()).collect()
    }

    /// Follows a change of the cluster.
    pub(super) fn follow(&self, scenario: &Scenario, cluster: &Cluster) {
        let there: BTreeSet<String> = cluster.pods.iter().map(|pod| pod_label(&pod.name)).collect();
        let gone = self.all.keys().filter(|name| name.starts_with("pod/") && !there.contains(*name)).cloned();
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = gone.collect();
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Names::of(scenario, cluster, self.names());
    }

    /// Uses the names of the present state.
    pub(super) fn with_names<T>(&self, function: impl FnOnce(&Names) -> T) -> T {
        function(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The door of a place.
    pub(super) fn door(&self, name: &str) -> Result<Door, Printed> {
        // The namespace `default` may be written.
        let name = name.replace("pod/default/", "pod/");
        let names = self.names();
        if let Some(place) = self.all.get(&name).filter(|_| names.contains(&name)) {
            let door = Door::open(&name, &place.entrance, &self.pids, hosts::file(&place.namespace));
            return door.map_err(|error| {
                let message = format!("{name} cannot be entered: {}", reason(error));
                Printed::wrong(message, "Allow more open files (`ulimit -n`).")
            });
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let choose = || "Run `show` for the places of this lab.".to_owned();
        let help = did_you_mean(&name, &names).unwrap_or_else(choose);
        let is_known = self.all.contains_key(&name);
        let what = if is_known { format!("{name} has been deleted") } else { format!("this lab has no `{name}`") };
        Err(Printed::wrong(what, &help))
    }
}

/// The Kubernetes namespace of a place.
fn namespace_of(place: &str) -> &str {
    let pod = place.strip_prefix("pod/").unwrap_or_default();
    pod.split_once('/').map_or(DEFAULT, |(namespace, _)| namespace)
}
