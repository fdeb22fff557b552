//! Topology hints: the endpoints for this node.

use super::endpoints::EndpointView;
use super::service_port::ServicePortView;
use crate::cluster::{Cluster, Endpoint, Node};
use crate::profile::Profile;

/// The endpoints that hints assign to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology<'a> {
    /// All endpoints: hints are off, or some ready endpoint has no hints, or no hint is for this node.
    Everywhere,
    /// Endpoints for this zone.
    Zone(&'a str),
    /// Endpoints for this node.
    Node(&'a str),
}

impl<'a> Topology<'a> {
    /// Evaluates the hints of a service port (`topologyModeFromHints` in kube-proxy's `pkg/proxy/topology.go`).
    pub(super) fn of(port: &ServicePortView<'_>, cluster: &Cluster, node: &'a Node, profile: Profile) -> Self {
        let config = &cluster.proxy;
        if !profile.zone_hints(config) || !(profile.hints_without_annotation(config) || is_annotated(port, profile)) {
            return Self::Everywhere;
        }
        if profile.node_hints(config) && applies(port, node.proxy_name(), |endpoint| endpoint.node_hints.as_deref()) {
            return Self::Node(node.proxy_name());
        }
        match node.proxy_zone().filter(|zone| !zone.is_empty()) {
            Some(zone) if applies(port, zone, |endpoint| endpoint.zone_hints.as_deref()) => Self::Zone(zone),
            _ => Self::Everywhere,
        }
    }

    /// Returns whether an endpoint is among them.
    pub(super) fn admits(self, view: &EndpointView<'_>) -> bool {
        let names = |hints: &Option<Vec<String>>, name: &str| hints.iter().flatten().any(|hint| hint == name);
        match self {
            Self::Everywhere => true,
            Self::Zone(zone) => names(&view.endpoint.zone_hints, zone),
            Self::Node(node) => names(&view.endpoint.node_hints, node),
        }
    }
}

/// Returns whether every ready endpoint has hints of this kind, and one of them is for this zone or node.
fn applies(port: &ServicePortView<'_>, name: &str, hints: impl Fn(&Endpoint) -> Option<&[String]>) -> bool {
    let mut found = false;
    for view in port.endpoints.iter().filter(|view| view.endpoint.ready) {
        let given = hints(view.endpoint).unwrap_or_default();
        if given.is_empty() {
            return false;
        }
        found |= given.iter().any(|hint| hint == name);
    }
    found
}

fn is_annotated(port: &ServicePortView<'_>, profile: Profile) -> bool {
    let annotation = |name: &str| port.service.annotations.get(name).map(String::as_str);
    let old = annotation("service.kubernetes.io/topology-aware-hints");
    if profile.topology_mode_annotation() {
        let value = old.or_else(|| annotation("service.kubernetes.io/topology-mode"));
        value.is_some_and(|value| !matches!(value, "" | "disabled" | "Disabled"))
    } else {
        old.is_some_and(|value| matches!(value, "auto" | "Auto"))
    }
}
