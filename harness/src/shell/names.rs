//! The names of a lab, for completion.

use svclab_rules::cluster::{Cluster, Service, ServicePort};

use crate::input::did_you_mean;
use crate::scenario::{Scenario, pod_label, short_name};

/// The prefixes of places.
const PLACES: [&str; 3] = ["pod/", "node/", "host/"];

/// Whether a word has the form of a place, whether or not the lab has it.
pub fn is_place(word: &str) -> bool {
    PLACES.iter().any(|start| word.starts_with(start))
}

/// The canonical name of a place: without the namespace `default`.
pub(super) fn normalized(place: &str) -> String {
    place.replace("pod/default/", "pod/")
}

/// The names of a lab, in its present state.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) places: Vec<String>,
    pub(super) nodes: Vec<String>,
    pub(super) destinations: Vec<String>,
    pub(super) tests: Vec<String>,
}

impl Names {
    pub(super) fn of(scenario: &Scenario, cluster: &Cluster, places: Vec<String>) -> Self {
        let of_services = cluster.services.iter().flat_map(destinations);
        let pods = cluster.pods.iter();
        let of_pods =
            pods.flat_map(|pod| pod.ports.iter().map(|port| format!("{}:{}", pod_label(&pod.name), port.port)));
        Self {
            places,
            nodes: cluster.nodes.iter().map(|node| node.name.clone()).collect(),
            destinations: of_services.chain(of_pods).collect(),
            tests: scenario.tests.iter().map(|test| test.name.clone()).collect(),
        }
    }
}

/// A suggestion for a mistyped name of a place, as a question; its kind (`pod/`) may be missing.
pub(super) fn suggested(name: &str, places: &[String]) -> Option<String> {
    if name.contains('/') {
        return did_you_mean(name, places);
    }
    let own: Vec<&str> = places.iter().filter_map(|place| Some(place.split_once('/')?.1)).collect();
    did_you_mean(name, &own)?;
    PLACES.iter().find_map(|kind| did_you_mean(&format!("{kind}{name}"), places))
}

/// The destinations of a service's ports.
fn destinations(service: &Service) -> Vec<String> {
    let name = short_name(&service.name);
    let of_port = |port: &ServicePort| {
        let is_balanced = !service.load_balancer.is_empty();
        let kinds = [
            ("service", !service.cluster_ips.is_empty()),
            ("nodeport", port.node_port.is_some()),
            ("externalip", !service.external_ips.is_empty()),
            ("loadbalancer", is_balanced),
        ];
        let kinds = kinds.into_iter().filter(|(_, has)| *has);
        kinds.map(|(kind, _)| format!("{kind}/{name}:{}", port.port)).collect::<Vec<_>>()
    };
    service.ports.iter().flat_map(of_port).collect()
}
