//! Whether objects and rules have the same endpoints.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use svclab_rules::infer::InferredPort;

use super::Assumption;
use super::accessors::{endpoint_ips, serving_ips};
use crate::text::list;

/// The contradiction of the endpoints of a Service by its objects and by rules, if there is one. Terminating endpoints may be in rules;
/// those of other nodes are not where the policy is Local, nor what an excerpt does not show.
pub(super) fn contradiction(
    service: &str,
    objects: &[&Value],
    ports: &[&InferredPort],
    is_whole: bool,
) -> Option<Assumption> {
    let (mut ready, mut serving, mut rules) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for one in objects {
        ready.extend(endpoint_ips(one));
        serving.extend(serving_ips(one));
    }
    let mut shows_all = is_whole;
    for port in ports {
        rules.extend(port.endpoints.iter().chain(&port.local).map(SocketAddr::ip));
        shows_all &= port.unshown_endpoints.is_empty() && !port.has_endpoints_elsewhere;
        shows_all &= !port.endpoints.is_empty() || !(port.is_internal_local || port.is_external_local);
    }
    let is_other = |ip: &IpAddr| !ready.contains(ip) && !serving.contains(ip);
    if !rules.iter().any(is_other) && (!shows_all || ready.is_subset(&rules)) {
        return None;
    }
    let words = |ips: &BTreeSet<IpAddr>| if ips.is_empty() { "none".to_owned() } else { list(ips, usize::MAX) };
    let (objects, rules) = (words(&ready), words(&rules));
    Some(Assumption::Contradiction(format!(
        "endpoints of {service} are {objects} in the objects, {rules} in the rules; using the objects"
    )))
}
