//! Topology hints: endpoints for the node's zone, or for the node itself.

use super::clause::Clause;
use super::cluster_index::Setting;
use super::endpoint_candidate::Candidate;
use crate::cluster::{Endpoint, Node, Service};
use crate::profile::Profile;

/// Returns the ready endpoints that hints assign to a node; all of them, if hints are not used.
///
/// A hint for the node takes precedence over one for its zone (KEP-3015).
pub(super) fn preferred<'a>(
    ready: Vec<Candidate<'a>>,
    service: &Service,
    node: &Node,
    setting: &Setting<'_>,
    because: &mut Vec<Clause>,
) -> Vec<Candidate<'a>> {
    if !hints_count(service, setting) {
        return ready;
    }
    if setting.profile.node_hints(setting.config())
        && let Some(meant) = meant_for(&ready, &node.name, |endpoint| endpoint.node_hints.as_deref())
    {
        because.push(Clause::NodeHints);
        return meant;
    }
    if let Some(zone) = node.zone().filter(|zone| !zone.is_empty())
        && let Some(meant) = meant_for(&ready, zone, |endpoint| endpoint.zone_hints.as_deref())
    {
        because.push(Clause::ZoneHints);
        return meant;
    }
    ready
}

/// Returns whether hints are used for a service: in older releases, only if its annotation enables them; later always, because the control
/// plane also writes them for `trafficDistribution`.
///
/// KEP-2433, "Kube-Proxy"; KEP-4444, "Kube-Proxy".
fn hints_count(service: &Service, setting: &Setting<'_>) -> bool {
    let (profile, config) = (setting.profile, setting.config());
    profile.zone_hints(config) && (profile.hints_without_annotation(config) || asks_for_hints(service, profile))
}

/// Returns whether a service's annotation enables hints: `topology-aware-hints` with the value Auto, and from 1.27 `topology-mode` with any
/// value except Disabled, because other values may name other heuristics.
///
/// KEP-2433, "Configuration"; Well-Known Labels, `service.kubernetes.io/topology-mode`.
fn asks_for_hints(service: &Service, profile: Profile) -> bool {
    let value = |name: &str| service.annotations.get(name).map(String::as_str);
    let old = value("service.kubernetes.io/topology-aware-hints");
    if !profile.topology_mode_annotation() {
        return matches!(old, Some("Auto" | "auto"));
    }
    let asked = old.or_else(|| value("service.kubernetes.io/topology-mode"));
    !matches!(asked, None | Some("" | "Disabled" | "disabled"))
}

/// Returns the endpoints with hints for a zone or node. `None` if an endpoint has no hints of this kind, or no hint names the zone or node:
/// then hints are not used at all.
///
/// KEP-2433, "Kube-Proxy".
fn meant_for<'a>(
    ready: &[Candidate<'a>],
    name: &str,
    hints: impl Fn(&Endpoint) -> Option<&[String]>,
) -> Option<Vec<Candidate<'a>>> {
    let hints_of = |candidate: &Candidate<'_>| hints(candidate.endpoint).unwrap_or_default().to_vec();
    if ready.iter().any(|candidate| hints_of(candidate).is_empty()) {
        return None;
    }
    let names = |candidate: &Candidate<'_>| hints_of(candidate).iter().any(|hint| hint == name);
    let meant: Vec<Candidate<'a>> = ready.iter().copied().filter(names).collect();
    (!meant.is_empty()).then_some(meant)
}
