//! Descriptions of EndpointSlices and Endpoints.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::super::endpoints::marked;
use super::super::super::line::Line;
use super::field;

const OF_SERVICE: &str = "kubernetes.io/service-name";

/// The object of an EndpointSlice. Without its own name it is called after its Service, which its label names.
pub(super) fn slice(lines: &[Line<'_>], mut metadata: Value) -> Value {
    let mut endpoints: Vec<Value> = Vec::new();
    let (mut kind, mut service) = (None, None);
    for line in lines {
        let text = line.text.trim().trim_start_matches("- ");
        service = service.or_else(|| label(text));
        let Some((key, value)) = field(text).map(|(key, value)| (key, value.trim())) else { continue };
        let is_set = !value.starts_with('<') && !value.is_empty();
        match (key, endpoints.last_mut()) {
            ("AddressType", _) => kind = Some(value.to_owned()),
            ("Addresses", _) => endpoints.push(json!({"addresses": listed(value), "conditions": {}})),
            ("Ready" | "Serving" | "Terminating", Some(last)) if matches!(value, "true" | "false") => {
                last["conditions"][key.to_lowercase()] = json!(value == "true");
            }
            ("NodeName", Some(last)) if is_set => last["nodeName"] = json!(value),
            ("Zone", Some(last)) if is_set => last["zone"] = json!(value),
            ("TargetRef", Some(last)) if is_set => {
                if let Some((kind, name)) = value.split_once('/') {
                    last["targetRef"] = json!({"kind": kind, "name": name, "namespace": metadata["namespace"]});
                }
            }
            _ => {}
        }
    }
    if let Some(service) = service {
        if metadata["name"].is_null() {
            metadata["name"] = json!(format!("{service}-slice"));
        }
        metadata["labels"] = json!({OF_SERVICE: service});
    }
    let is_ipv6 = || endpoints.iter().any(|own| own["addresses"][0].as_str().is_some_and(|ip| ip.contains(':')));
    let kind = kind.unwrap_or_else(|| if is_ipv6() { "IPv6" } else { "IPv4" }.to_owned());
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": kind,
        "ports": ports(lines),
        "endpoints": endpoints,
    })
}

/// The object of Endpoints.
pub(super) fn endpoints(lines: &[Line<'_>], metadata: &Value) -> Value {
    let mut subsets: Vec<Value> = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((key, value)) = field(line.text.trim()).map(|(key, value)| (key, value.trim())) else { continue };
        let all = || listed(value).into_iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
        match (key, subsets.last_mut()) {
            ("Addresses", _) => {
                subsets.push(json!({"addresses": all()}));
                starts.push(at);
            }
            ("NotReadyAddresses", Some(last)) => last["notReadyAddresses"] = json!(all()),
            ("NotReadyAddresses", None) => {
                subsets.push(json!({"notReadyAddresses": all()}));
                starts.push(at);
            }
            _ => {}
        }
    }
    for (at, subset) in subsets.iter_mut().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(lines.len());
        subset["ports"] = json!(ports(&lines[starts[at]..end]));
    }
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
}

/// The Endpoints that the description of a Service lists for each of its ports; `None` if it lists none.
pub(super) fn of_service(listed: &[String], service: &Value, is_cut: bool) -> Option<Value> {
    let ports = service["spec"]["ports"].as_array()?;
    if listed.is_empty() || listed.len() != ports.len() {
        return None;
    }
    let mut subsets = Vec::new();
    for (text, port) in listed.iter().zip(ports) {
        let all = text.split([',', ' ']).filter_map(|one| one.parse::<std::net::SocketAddr>().ok());
        let mut by_port: BTreeMap<u16, Vec<Value>> = BTreeMap::new();
        for one in all {
            by_port.entry(one.port()).or_default().push(json!({"ip": one.ip()}));
        }
        subsets.extend(by_port.into_iter().map(|(number, addresses)| {
            let served = json!({"name": port["name"].as_str().unwrap_or_default(), "port": number, "protocol": port["protocol"]});
            json!({"addresses": addresses, "ports": [served]})
        }));
    }
    let metadata = &service["metadata"];
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
    Some(marked(endpoints, is_cut))
}

/// The service that a label names.
fn label(text: &str) -> Option<String> {
    let text = text.strip_prefix("Labels:").unwrap_or(text).trim_start();
    text.strip_prefix(OF_SERVICE)?.strip_prefix('=').map(|name| name.trim().to_owned())
}

/// `10.244.1.5,10.244.1.6`
fn listed(value: &str) -> Vec<String> {
    let all = value.split(',').map(str::trim).filter(|own| own.parse::<std::net::IpAddr>().is_ok());
    all.map(str::to_owned).collect()
}

/// The rows of a table of ports: `http  8080  TCP`.
fn ports(lines: &[Line<'_>]) -> Vec<Value> {
    let row = |line: &Line<'_>| {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [name, port, protocol @ ("TCP" | "UDP" | "SCTP")] = words.as_slice() else { return None };
        let mut value = Map::new();
        value.insert("port".to_owned(), json!(port.parse::<u16>().ok()?));
        value.insert("protocol".to_owned(), json!(protocol));
        if !name.starts_with('<') {
            value.insert("name".to_owned(), json!(name));
        }
        Some(Value::Object(value))
    };
    lines.iter().filter_map(row).collect()
}
