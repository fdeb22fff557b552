//! Endpoints that only the set `hairpin-connections` shows: it lists those of its node, without their Services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::infer::{Inferred, InferredPort};

use super::accessors::{endpoint_ips, service_of};
use super::merge::Objects;
use super::service_ports::is_api_server;
use crate::text::list;

/// The most endpoints that are listed.
const SHOWN: usize = 5;

/// Gives the endpoints in the set that neither chains nor objects show to service ports whose endpoints nothing shows: those with one port
/// number to one of them, its own number first. Returns what was assumed, in words.
pub(super) fn assign(inferred: &mut Inferred, objects: &Objects) -> Vec<String> {
    let shown = inferred.ports.iter().flat_map(|port| port.endpoints.iter().chain(&port.local));
    let shown: BTreeSet<SocketAddr> = shown.copied().collect();
    let of_objects: BTreeSet<IpAddr> = objects.endpoints.iter().flat_map(endpoint_ips).collect();
    let served: BTreeSet<String> = objects.endpoints.iter().map(service_of).collect();
    let mut groups: BTreeMap<(Family, Protocol, u16), BTreeSet<SocketAddr>> = BTreeMap::new();
    for (protocol, endpoint) in &inferred.proxy.in_hairpin_set {
        if !shown.contains(endpoint) && !of_objects.contains(&endpoint.ip()) {
            let key = (Family::of(endpoint.ip()), *protocol, endpoint.port());
            groups.entry(key).or_default().insert(*endpoint);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    let mut words = Vec::new();
    for is_by_number in [true, false] {
        groups.retain(|((family, protocol, number), endpoints)| {
            let is_open = |port: &&mut InferredPort| {
                port.protocol == *protocol
                    && port.unshown_endpoints.contains(family)
                    && !is_api_server(&port.full_name())
                    && !served.contains(&port.service.to_string())
                    && (!is_by_number || port.port == Some(*number))
            };
            let Some(port) = inferred.ports.iter_mut().find(is_open) else { return true };
            port.unshown_endpoints.remove(family);
            port.endpoints.extend(endpoints);
            if port.is_external_local || port.is_internal_local {
                port.local.extend(endpoints);
            }
            let all = list(endpoints, SHOWN);
            words.push(format!("endpoints of {}, from `hairpin-connections`: {all}", port.full_name()));
            false
        });
    }
    words
}
