//! Defaults (`SetDefaults_Service` and others in the API server's `pkg/apis/core/v1/defaults.go`, and defaults that its
//! `pkg/registry/core/service` sets before it stores a service).

use serde_json::{Map, Value, json};

use super::super::resource::Endpoint;
use super::members;

/// Fills in defaults of an object.
pub(super) fn fill(end: Endpoint, object: &mut Value) {
    metadata(end, object);
    match end.resource().kind {
        "Service" => service(object),
        "Endpoints" => members(object, "subsets").for_each(ports),
        "EndpointSlice" => slice(object),
        "Node" => node(object),
        _ => {}
    }
}

/// Sets a field that is missing, null or empty.
fn default(object: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if is_unset(object.get(name)) {
        object.insert(name.to_owned(), value.into());
    }
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Returns the object in a field, and creates it if it does not exist.
fn inside<'a>(object: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    default(object, name, Map::new());
    object.get_mut(name)?.as_object_mut()
}

fn metadata(end: Endpoint, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let Some(metadata) = inside(object, "metadata") else { return };
    if end.resource().namespaced {
        default(metadata, "namespace", "default");
    } else {
        metadata.remove("namespace");
    }
}

fn service(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    if let Some(status) = inside(object, "status") {
        default(status, "loadBalancer", Map::new());
        let ingress = status.get_mut("loadBalancer").and_then(|balancer| balancer.get_mut("ingress"));
        let ingress = ingress.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut);
        ingress.filter(|entry| !is_unset(entry.get("ip"))).for_each(|entry| default(entry, "ipMode", "VIP"));
    }
    let Some(spec) = inside(object, "spec") else { return };
    default(spec, "type", "ClusterIP");
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    default(spec, "sessionAffinity", "None");
    if spec.get("sessionAffinity").and_then(Value::as_str) == Some("ClientIP") {
        let client = inside(spec, "sessionAffinityConfig").and_then(|config| inside(config, "clientIP"));
        client.into_iter().for_each(|client| default(client, "timeoutSeconds", 10_800));
    }
    ports(spec);
    target_ports(spec);
    let published = matches!(kind.as_str(), "NodePort" | "LoadBalancer");
    let external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if published || (external && kind == "ClusterIP") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
        families(spec);
    }
}

fn target_ports(spec: &mut Map<String, Value>) {
    let listed = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in listed.filter_map(Value::as_object_mut) {
        if port.get("targetPort").and_then(Value::as_i64) == Some(0) {
            port.remove("targetPort");
        }
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
    }
}

/// Fills in `clusterIP` and `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` from each other.
fn families(spec: &mut Map<String, Value>) {
    let listed = spec.get("clusterIPs").and_then(Value::as_array).and_then(|list| list.first()).cloned();
    match (is_unset(spec.get("clusterIP")), listed) {
        (true, Some(first)) => default(spec, "clusterIP", first),
        (false, None) => {
            let single = spec.get("clusterIP").cloned().into_iter().collect::<Vec<Value>>();
            spec.insert("clusterIPs".to_owned(), single.into());
        }
        _ => {}
    }
    let addresses: Vec<String> = texts(spec, "clusterIPs");
    let headless = addresses.first().is_some_and(|first| first == "None");
    let without_selector = spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty);
    if texts(spec, "ipFamilies").is_empty() {
        let family = |address: &String| if address.contains(':') { "IPv6" } else { "IPv4" };
        let families = match (headless, without_selector) {
            (true, true) => vec!["IPv4", "IPv6"],
            (true, false) => vec!["IPv4"],
            (false, _) => addresses.iter().map(family).collect(),
        };
        if !families.is_empty() {
            spec.insert("ipFamilies".to_owned(), families.into());
        }
    }
    let both = texts(spec, "ipFamilies").len() > 1 || addresses.len() > 1;
    default(spec, "ipFamilyPolicy", if both { "RequireDualStack" } else { "SingleStack" });
}

fn texts(object: &Map<String, Value>, name: &str) -> Vec<String> {
    let listed = object.get(name).and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Sets protocol TCP for the ports in an object.
fn ports(object: &mut Map<String, Value>) {
    let listed = object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    listed.filter_map(Value::as_object_mut).for_each(|port| default(port, "protocol", "TCP"));
}

fn slice(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    default(object, "endpoints", json!([]));
    default(object, "ports", json!([]));
    ports(object);
    let listed = object.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    listed.filter_map(Value::as_object_mut).for_each(|port| default(port, "name", ""));
}

fn node(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    inside(object, "status");
    let Some(spec) = inside(object, "spec") else { return };
    match (spec.get("podCIDR").cloned(), texts(spec, "podCIDRs").first().cloned()) {
        (Some(range), None) => _ = spec.insert("podCIDRs".to_owned(), json!([range])),
        (None, Some(first)) => _ = spec.insert("podCIDR".to_owned(), first.into()),
        _ => {}
    }
}
