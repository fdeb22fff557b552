//! The places of a lab in which programs run.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use svclab_rules::cluster::Cluster;

use super::hosts;
use super::names::{Names, normalized, suggested};
use super::namespaces::PlaceNamespaces;
use super::reply::Printed;
use crate::lab::{Entrance, Lab, LabError};
use crate::scenario::Scenario;
use crate::text::reason;
use crate::topology::{Role, pod_label};

/// The Kubernetes namespace in which nodes and outside hosts look up names.
const DEFAULT: &str = "default";

/// The help for a place that does not exist.
const CHOOSE: &str = "Run `show` for the places of this lab.";

/// The places of a lab, by name: `pod/client`, `node/worker`, `host/outside`.
pub(super) struct Places {
    all: BTreeMap<String, Place>,
    /// The PID namespace of all programs.
    pids: OwnedFd,
    /// The places that cannot be entered in the cluster's present state, with the reason.
    gone: Mutex<BTreeMap<String, Gone>>,
    /// The names in the present state, for completion.
    names: Mutex<Names>,
}

/// The reason why a place cannot be entered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Gone {
    /// The cluster does not have the pod.
    Deleted,
    /// The node is off: the place itself, or the pod's node.
    Off(String),
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

    /// The names of all places in the present state.
    pub(super) fn names(&self) -> Vec<String> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        self.all.keys().filter(|name| !gone.contains_key(*name)).cloned().collect()
    }

    /// The Kubernetes namespaces that names are looked up in.
    pub(super) fn namespaces(&self) -> BTreeSet<&str> {
        self.all.values().map(|place| place.namespace.as_str()).collect()
    }

    /// Follows a change of the cluster.
    pub(super) fn follow(&self, scenario: &Scenario, cluster: &Cluster) {
        let nodes: BTreeMap<String, &str> = cluster.pods.iter().map(|pod| (pod_label(&pod.name), &*pod.node)).collect();
        let gone = |name: &str| {
            let node = match name.strip_prefix("node/") {
                Some(node) => node,
                None if name.starts_with("pod/") => match nodes.get(name) {
                    Some(node) => node,
                    None => return Some(Gone::Deleted),
                },
                None => return None,
            };
            cluster.is_off(node).then(|| Gone::Off(node.to_owned()))
        };
        let gone = self.all.keys().filter_map(|name| Some((name.clone(), gone(name)?))).collect();
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = gone;
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Names::of(scenario, cluster, self.names());
    }

    /// Calls a function with the names in the present state.
    pub(super) fn with_names<T>(&self, function: impl FnOnce(&Names) -> T) -> T {
        function(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Duplicates the namespaces of a place.
    pub(super) fn open_place(&self, name: &str) -> Result<PlaceNamespaces, Printed> {
        let name = normalized(name);
        let names = self.names();
        if let Some(place) = self.all.get(&name).filter(|_| names.contains(&name)) {
            let namespaces = PlaceNamespaces::open(&name, &place.entrance, &self.pids, hosts::file(&place.namespace));
            return namespaces.map_err(|error| {
                let message = format!("{name} cannot be entered: {}", reason(error));
                Printed::wrong(message, "Allow more open files (`ulimit -n`).")
            });
        }
        Err(match self.gone.lock().unwrap_or_else(PoisonError::into_inner).get(&name) {
            Some(Gone::Deleted) => deleted(&name),
            Some(Gone::Off(node)) => {
                let help = format!("Turn it on: `up node/{node}`.");
                Printed::wrong(format!("node/{node} is off, so nothing on it is running"), &help)
            }
            None => {
                let help = suggested(&name, &names).unwrap_or_else(|| CHOOSE.to_owned());
                Printed::wrong(format!("this lab has no `{name}`"), &help)
            }
        })
    }
}

/// The message for a pod that a change has deleted; the lab still has its namespace.
pub(super) fn deleted(name: &str) -> Printed {
    Printed::wrong(format!("{name} has been deleted"), CHOOSE)
}

/// The Kubernetes namespace of a place.
fn namespace_of(place: &str) -> &str {
    let pod = place.strip_prefix("pod/").unwrap_or_default();
    pod.split_once('/').map_or(DEFAULT, |(namespace, _)| namespace)
}
