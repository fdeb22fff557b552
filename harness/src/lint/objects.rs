//! Rules against Kubernetes objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::TableName;

use super::deviations::subject;
use super::finding::{Finding, Place};
use super::lines::PortLines;
use super::view::View;
use crate::evidence::{ListedEndpoint, NodeRules, endpoints, is_cut};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let mut found = external_ips(view);
    let ready = ready(view);
    let services = services(view);
    let differing = differing(view);
    for (node, ports) in view.nodes.iter().zip(&view.ports) {
        let lines = PortLines::of(node);
        for port in ports {
            let line = lines.line_of_port(port).unwrap_or(node.first);
            let place = Place { file: node.file.clone(), line };
            let is_differing = |all: &HashSet<_>| all.contains(&(node.file.as_deref(), &*port.service.to_string()));
            if differing.as_ref().is_none_or(is_differing) {
                found.extend(compared(port, &ready, &place, shows_endpoints(node, port)));
            }
            found.extend(ranges(port, &services, &place, node.has_translations()));
        }
    }
    found
}

/// Whether all endpoints of a service port are shown, as far as the rules have them.
fn shows_endpoints(node: &NodeRules, port: &InferredPort) -> bool {
    let of_hash = |hash: &str| node.coverage.has_chain(TableName::Nat.as_str(), &format!("KUBE-SVC-{hash}"));
    node.is_whole() || port.hash.is_some_and(|hash| of_hash(&hash.to_string()))
}

/// The Services whose rules differ from those that kube-proxy writes, each with its file; `None` if they are not compared. Others have the
/// endpoints that kube-proxy chose, which may leave out ready ones because of hints or policies, and have others that terminate.
fn differing<'v>(view: &View<'v>) -> Option<HashSet<(Option<&'v str>, &'v str)>> {
    let deviations = view.deviations?.iter();
    Some(deviations.map(|deviation| (deviation.file.as_deref(), subject(deviation))).collect())
}

/// The endpoints of services by namespace and name that kube-proxy uses, where they are surely all of them.
pub(super) fn ready(view: &View<'_>) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let mut all: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let key = |object: &Value, name: &str| {
        format!("{}/{name}", object["metadata"]["namespace"].as_str().unwrap_or("default"))
    };
    for kind in ["Endpoints", "EndpointSlice", "Service"] {
        for (_, object) in view.objects_of_kind(kind) {
            let own = object["metadata"]["name"].as_str().unwrap_or_default();
            let name = match kind {
                "EndpointSlice" => object["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap_or(own),
                _ => own,
            };
            let key = key(object, name);
            let addresses = addresses(object);
            if is_cut(object) || view.deviations.is_none() && is_selective(object) {
                open.insert(key);
                continue;
            }
            // Only a description of a Service lists endpoints.
            if kind == "Service" && addresses.is_empty() {
                continue;
            }
            let known = all.entry(key).or_default();
            known.extend(addresses);
        }
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

fn compared(
    port: &InferredPort,
    ready: &BTreeMap<String, BTreeSet<IpAddr>>,
    place: &Place,
    is_whole: bool,
) -> Vec<Finding> {
    let service = port.service.to_string();
    let Some(known) = ready.get(&service) else { return Vec::new() };
    let own: BTreeSet<IpAddr> = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip).collect();
    let has_family = |ip: &IpAddr| port.cluster_ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
    let known: BTreeSet<IpAddr> =
        known.iter().copied().filter(|ip| port.cluster_ips.is_empty() || has_family(ip)).collect();
    let listed = |all: Vec<&IpAddr>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    if own.is_empty() && !known.is_empty() && is_whole && !port.has_endpoints_elsewhere {
        let message =
            format!("the rules have no endpoint of {service}, but {} are ready", listed(known.iter().collect()));
        found.push(Finding::new(
            "no-endpoints",
            place.clone(),
            message,
            "connections to the Service are rejected or time out",
        ));
        return found;
    }
    let extra: Vec<&IpAddr> = own.difference(&known).collect();
    let lacking: Vec<&IpAddr> = known.difference(&own).collect();
    if !extra.is_empty() && !own.is_empty() {
        let message = format!("the rules have endpoints of {service} that are not ready: {}", listed(extra));
        let effect = "a share of connections goes to addresses that no pod has";
        found.push(Finding::new("endpoints-differ", place.clone(), message, effect));
    } else if !lacking.is_empty() && !own.is_empty() && is_whole && !port.is_internal_local {
        let message = format!("ready endpoints of {service} are missing in the rules: {}", listed(lacking));
        found.push(Finding::new(
            "endpoints-differ",
            place.clone(),
            message,
            "these endpoints get no connections from this node",
        ));
    }
    found
}

/// The Services by namespace and name.
fn services<'v>(view: &'v View<'_>) -> HashMap<(&'v str, &'v str), &'v Value> {
    let named = view.objects_of_kind("Service").filter_map(|(_, object)| {
        let metadata = &object["metadata"];
        Some(((metadata["namespace"].as_str().unwrap_or("default"), metadata["name"].as_str()?), object))
    });
    named.collect()
}

/// Source ranges of a Service that no rule checks.
fn ranges(
    port: &InferredPort,
    services: &HashMap<(&str, &str), &Value>,
    place: &Place,
    is_whole: bool,
) -> Option<Finding> {
    let object = services.get(&(port.service.namespace.as_str(), port.service.name.as_str()))?;
    let ranges = object["spec"]["loadBalancerSourceRanges"].as_array()?;
    let is_open = ranges.iter().any(|range| range.as_str().is_some_and(|range| range.ends_with("/0")));
    let is_unchecked =
        !ranges.is_empty() && !is_open && !port.load_balancer.is_empty() && port.source_ranges.is_empty();
    (is_unchecked && is_whole).then(|| {
        let message = format!("{} has loadBalancerSourceRanges, but no rule checks them", port.service);
        Finding::new("source-ranges", place.clone(), message, "every source reaches the load balancer's address")
    })
}

/// External IPs that are a node's.
fn external_ips(view: &View<'_>) -> Vec<Finding> {
    let of_nodes: BTreeSet<&str> = view
        .objects_of_kind("Node")
        .flat_map(|(_, node)| node["status"]["addresses"].as_array().into_iter().flatten())
        .filter_map(|address| address["address"].as_str())
        .collect();
    let mut found = Vec::new();
    for (place, service) in view.objects_of_kind("Service") {
        let external = service["spec"]["externalIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for ip in external.filter(|ip| of_nodes.contains(ip)) {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            let message = format!("external IP {ip} of Service {name} is a node's own address");
            let effect = "every connection to this address and port of the node goes to the Service, from the node's own processes too";
            found.push(Finding::new("external-ip-of-node", place.clone(), message, effect));
        }
    }
    found
}
