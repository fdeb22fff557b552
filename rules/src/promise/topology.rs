//! Topology: endpoints that are meant for the node's zone, or for the node itself.

use super::clause::Clause;
use super::cluster_index::Setting;
use super::endpoint_candidate::Candidate;
use crate::cluster::{Endpoint, Node, Service};
use crate::profile::Profile;

/// Of ready endpoints, those that hints leave to a node; all of them, if hints do not count.
///
/// A hint for the node itself comes before one for its zone (KEP-3015).
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

/// Whether hints count for a service: at first, only if its annotation asks for them; later, wherever they are, since
/// `trafficDistribution` makes the control plane write them as well.
///
/// KEP-2433, "Kube-Proxy"; KEP-4444, "Kube-Proxy".
fn hints_count(service: &Service, setting: &Setting<'_>) -> bool {
    let (profile, config) = (setting.profile, setting.config());
    profile.zone_hints(config) && (profile.hints_without_annotation(config) || asks_for_hints(service, profile))
}

/// Whether a service's annotation asks for hints: `topology-aware-hints` with the value Auto, and from 1.27
/// `topology-mode` with any value but Disabled, for values other than Auto may name other heuristics.
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

/// The endpoints whose hints name a zone or node. `None` if one of the endpoints has no hints of this kind, or no hint
/// names it: then hints do not count at all.
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
