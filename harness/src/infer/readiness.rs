//! Which endpoints in tables of EndpointSlices are ready. These list all endpoints, those that are not ready or terminate included, and do not
//! distinguish them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};
use svclab_rules::cluster::Family;
use svclab_rules::infer::{Inferred, InferredPort};

use super::accessors::{endpoint_ips, for_each_endpoint, ips, service_of};
use super::merge::Objects;
use crate::evidence::{has_unknown_readiness, is_cut};
use crate::text::list;

/// The most Services or endpoints that are named.
const SHOWN: usize = 5;

/// Marks the endpoints that are not ready, as other lists, the rules, and pods show it. Returns what was assumed, in words. `is_left_out` says
/// of a Service's endpoint that rules for the endpoints of its own node lack it.
pub(super) fn assume(
    objects: &mut Objects,
    inferred: &Inferred,
    is_left_out: impl Fn(&str, IpAddr) -> bool,
) -> Vec<String> {
    let listed = listed(&objects.endpoints);
    let in_rules = in_rules(&inferred.ports);
    let terminating = terminating(&inferred.ports);
    let unready = unready_pods(&objects.pods);
    let (mut left_out, mut open) = (BTreeSet::new(), BTreeSet::new());
    for slice in objects.endpoints.iter_mut().filter(|one| has_unknown_readiness(one)) {
        let service = service_of(slice);
        for_each_endpoint(slice, |ip, _, fields| {
            let of_lists = listed.get(&(service.clone(), Family::of(ip)));
            let is_ready = match (of_lists, in_rules.get(&service)) {
                (Some(ready), _) => ready.contains(&ip),
                (None, Some(ready)) => {
                    if !ready.contains(&ip) {
                        left_out.insert(format!("{ip} of {service}"));
                    }
                    ready.contains(&ip)
                }
                (None, None) if is_left_out(&service, ip) => {
                    left_out.insert(format!("{ip} of {service}"));
                    false
                }
                (None, None) => {
                    let is_ready = !unready.contains(&ip);
                    if is_ready {
                        open.insert(service.clone());
                    }
                    is_ready
                }
            };
            let conditions = match terminating.contains(&(service.clone(), ip)) {
                true => json!({"ready": false, "serving": true, "terminating": true}),
                false => json!({"ready": is_ready}),
            };
            fields.insert("conditions".to_owned(), conditions);
        });
    }
    let table = "a table of EndpointSlices does not show which endpoints are ready";
    let left_out = (!left_out.is_empty()).then(|| {
        format!("{table}: those that the rules do not have are treated as not ready: {}", list(left_out, SHOWN))
    });
    let open = (!open.is_empty()).then(|| format!("{table}: those of {} are treated as ready", list(open, SHOWN)));
    left_out.into_iter().chain(open).collect()
}

/// The ready endpoints of Services in lists that show which are, by family: Endpoints may have those of one family alone.
fn listed(endpoints: &[Value]) -> BTreeMap<(String, Family), BTreeSet<IpAddr>> {
    let mut all: BTreeMap<(String, Family), BTreeSet<IpAddr>> = BTreeMap::new();
    for one in endpoints.iter().filter(|one| !has_unknown_readiness(one) && !is_cut(one)) {
        for ip in endpoint_ips(one) {
            all.entry((service_of(one), Family::of(ip))).or_default().insert(ip);
        }
    }
    all
}

/// The endpoints in rules, of the Services of which rules have all that are ready.
fn in_rules(ports: &[InferredPort]) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut all: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for port in ports {
        let own = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip);
        all.entry(port.service.to_string()).or_default().extend(own);
    }
    // With policy Local, those of other nodes are left out.
    let is_open = |port: &&InferredPort| {
        !port.unshown_endpoints.is_empty() || port.has_endpoints_elsewhere || port.is_internal_local
    };
    for port in ports.iter().filter(is_open) {
        all.remove(&port.service.to_string());
    }
    all
}

/// The endpoints that serve while they are terminating: rules lead to them with policy Local alone, since other nodes have ready ones.
fn terminating(ports: &[InferredPort]) -> BTreeSet<(String, IpAddr)> {
    let of_port = |port: &InferredPort| {
        let others = port.local.iter().filter(|one| !port.endpoints.is_empty() && !port.endpoints.contains(one));
        others.map(|one| (port.service.to_string(), one.ip())).collect::<Vec<_>>()
    };
    ports.iter().flat_map(of_port).collect()
}

/// The addresses of pods that are not ready.
fn unready_pods(pods: &[Value]) -> BTreeSet<IpAddr> {
    let is_unready = |pod: &&Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "Ready" && one["status"] == "False")
    };
    pods.iter().filter(is_unready).flat_map(ips).collect()
}
