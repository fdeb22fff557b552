//! The endpoints and Services that objects list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::Value;

use super::view::View;
use crate::evidence::{ListedEndpoint, endpoints, has_unknown_readiness, is_cut, is_from_table};

/// The objects that list endpoints, each with its Service.
pub(super) fn endpoint_objects<'v>(view: &'v View<'_>) -> impl Iterator<Item = (String, &'v Value)> {
    let of_kind = |kind: &'static str| view.objects_of_kind(kind).map(move |(_, object)| (kind, object));
    ["Endpoints", "EndpointSlice", "Service"].into_iter().flat_map(of_kind).map(|(kind, object)| {
        let own = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = match kind {
            "EndpointSlice" => object["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap_or(own),
            _ => own,
        };
        (format!("{}/{name}", object["metadata"]["namespace"].as_str().unwrap_or("default")), object)
    })
}

/// An endpoint that is ready.
pub(super) struct ReadyEndpoint {
    pub(super) ip: IpAddr,
    /// The names of its ports; `None` if a table shows it, which does not have them.
    pub(super) ports: Option<BTreeSet<String>>,
}

/// The endpoints of Services that are surely ready, also where others are left out. A table of EndpointSlices has those that are not, too.
pub(super) fn surely_ready(view: &View<'_>) -> BTreeMap<String, Vec<ReadyEndpoint>> {
    let mut all: BTreeMap<String, Vec<ReadyEndpoint>> = BTreeMap::new();
    for (service, object) in endpoint_objects(view).filter(|(_, object)| !has_unknown_readiness(object)) {
        let has_names = object["kind"] != "Service" && !is_from_table(object);
        let ready = endpoints(object).into_iter().filter(ListedEndpoint::is_ready);
        let of_endpoint = |endpoint: ListedEndpoint<'_>| {
            let ports: Option<BTreeSet<String>> = has_names.then(|| endpoint.port_names().collect());
            endpoint.addresses.into_iter().map(move |ip| ReadyEndpoint { ip, ports: ports.clone() })
        };
        all.entry(service).or_default().extend(ready.flat_map(of_endpoint));
    }
    let services = services(view);
    // With this policy, some releases reject connections on nodes without an endpoint.
    let is_local = |name: &str| {
        let object = name.split_once('/').and_then(|key| services.get(&key));
        object.is_some_and(|object| object["spec"]["internalTrafficPolicy"] == "Local")
    };
    all.retain(|service, _| !is_local(service));
    all
}

/// The endpoints of a Service.
#[derive(Default)]
pub(super) struct Listed {
    /// Those that kube-proxy uses.
    pub(super) ready: BTreeSet<IpAddr>,
    /// Those that it may use: a table does not show whether they are ready.
    pub(super) possible: BTreeSet<IpAddr>,
}

/// The endpoints of services by namespace and name, where they are surely all of them.
pub(super) fn ready(view: &View<'_>) -> BTreeMap<String, Listed> {
    let mut all: BTreeMap<String, Listed> = BTreeMap::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (key, object) in endpoint_objects(view) {
        let addresses = addresses(object);
        if is_cut(object) || view.deviations.is_none() && is_selective(object) {
            open.insert(key);
            continue;
        }
        // Only a description of a Service lists endpoints.
        if object["kind"] == "Service" && addresses.is_empty() {
            continue;
        }
        let listed = all.entry(key).or_default();
        let known = if has_unknown_readiness(object) { &mut listed.possible } else { &mut listed.ready };
        known.extend(addresses);
    }
    all.retain(|name, _| !open.contains(name));
    all
}

/// Whether kube-proxy does not simply use all ready endpoints of a slice.
fn is_selective(slice: &Value) -> bool {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.into_iter().any(|one| one["hints"].is_object() || one["conditions"]["ready"] == false)
}

/// The addresses of ready endpoints.
fn addresses(object: &Value) -> Vec<IpAddr> {
    endpoints(object).into_iter().filter(ListedEndpoint::is_ready).flat_map(|endpoint| endpoint.addresses).collect()
}

/// The Services by namespace and name.
pub(super) fn services<'v>(view: &'v View<'_>) -> HashMap<(&'v str, &'v str), &'v Value> {
    let named = view.objects_of_kind("Service").filter_map(|(_, object)| {
        let metadata = &object["metadata"];
        Some(((metadata["namespace"].as_str().unwrap_or("default"), metadata["name"].as_str()?), object))
    });
    named.collect()
}
