//! What Kubernetes objects say, as JSON: names, addresses, endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::evidence::{ListedEndpoint, endpoints};

/// Calls a function for each endpoint with its address and node.
pub(super) fn for_each_endpoint(
    slice: &mut Value,
    mut call: impl FnMut(IpAddr, Option<&str>, &mut serde_json::Map<String, Value>),
) {
    let lists: Vec<&mut Vec<Value>> = match slice["kind"].as_str() {
        Some("Endpoints") => match slice["subsets"].as_array_mut() {
            Some(subsets) => subsets.iter_mut().filter_map(|subset| subset["addresses"].as_array_mut()).collect(),
            None => Vec::new(),
        },
        _ => slice["endpoints"].as_array_mut().into_iter().collect(),
    };
    for endpoint in lists.into_iter().flatten() {
        let address = endpoint["ip"].as_str().or(endpoint["addresses"][0].as_str());
        let Some(address) = address.and_then(|text| text.parse().ok()) else { continue };
        let node = endpoint["nodeName"].as_str().map(str::to_owned);
        if let Some(fields) = endpoint.as_object_mut() {
            call(address, node.as_deref(), fields);
        }
    }
}

/// The addresses of ready endpoints.
pub(super) fn endpoint_ips(slice: &Value) -> Vec<IpAddr> {
    endpoints(slice).into_iter().filter(ListedEndpoint::is_ready).flat_map(|endpoint| endpoint.addresses).collect()
}

/// The addresses of endpoints that serve while they are terminating: kube-proxy uses them where there are no others.
pub(super) fn serving_ips(slice: &Value) -> Vec<IpAddr> {
    let serving = endpoints(slice).into_iter().filter(ListedEndpoint::serves_terminating);
    serving.flat_map(|endpoint| endpoint.addresses).collect()
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

pub(super) fn own_name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// `namespace/name`
pub(crate) fn name(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    format!("{namespace}/{}", own_name(object))
}

/// The Service that endpoints belong to.
pub(super) fn service_of(object: &Value) -> String {
    match object["metadata"]["labels"]["kubernetes.io/service-name"].as_str() {
        Some(service) => format!("{}/{service}", object["metadata"]["namespace"].as_str().unwrap_or("default")),
        None => name(object),
    }
}

/// Whether a Service has endpoints that rules translate to, which no description of it lists.
pub(super) fn has_endpoints(service: &Value) -> bool {
    let spec = &service["spec"];
    spec["type"] != "ExternalName" && spec["clusterIP"] != "None" && !service["endpoints"].is_array()
}

/// The addresses of a pod.
pub(crate) fn ips(pod: &Value) -> Vec<IpAddr> {
    let listed = pod["status"]["podIPs"].as_array().into_iter().flatten().map(|one| &one["ip"]);
    let all = listed.chain([&pod["status"]["podIP"]]).filter_map(|ip| ip.as_str()?.parse().ok());
    let all: BTreeSet<IpAddr> = all.collect();
    all.into_iter().collect()
}

/// Whether a node is one of the control plane.
pub(super) fn is_control_plane(node: &Value) -> bool {
    let is_role = |label: &String| label.ends_with("/control-plane") || label.ends_with("/master");
    node["metadata"]["labels"].as_object().is_some_and(|labels| labels.keys().any(is_role))
}

/// The addresses of a node.
pub(crate) fn node_ips(node: &Value) -> Vec<IpAddr> {
    let listed = node["status"]["addresses"].as_array().into_iter().flatten();
    listed.filter_map(|one| one["address"].as_str()?.parse().ok()).collect()
}

/// The pod ranges of a node.
pub(super) fn node_ranges(node: &Value) -> Vec<IpNet> {
    let listed = node["spec"]["podCIDRs"].as_array().into_iter().flatten().chain([&node["spec"]["podCIDR"]]);
    let ranges: BTreeSet<IpNet> = listed.filter_map(|range| range.as_str()?.parse().ok()).collect();
    ranges.into_iter().collect()
}

/// Sets the pod ranges of a node, if there are any.
pub(super) fn set_ranges(node: &mut Value, ranges: &[IpNet]) {
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    if let Some(first) = ranges.first() {
        node["spec"]["podCIDR"] = json!(first);
        node["spec"]["podCIDRs"] = json!(ranges);
    }
}

pub(crate) fn service_ips(service: &Value) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let lists =
        ["clusterIPs", "externalIPs"].into_iter().flat_map(|field| spec[field].as_array().into_iter().flatten());
    let balanced = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten().map(|one| &one["ip"]);
    lists.chain([&spec["clusterIP"]]).chain(balanced).filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}
