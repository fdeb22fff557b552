//! Pieces with Kubernetes objects → one list of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::model::{Contents, Evidence, Format};

/// The kinds of objects that rules depend on.
const KINDS: [&str; 6] = ["Node", "Pod", "Service", "Endpoints", "EndpointSlice", "ServiceCIDR"];

/// A list of the objects that rules depend on, in JSON; `None` where there are none. Of an object that several pieces show, the most
/// complete counts: a manifest before a description before a table.
pub fn manifest(evidence: &Evidence) -> Option<String> {
    let rank = |format: Format| match format {
        Format::Yaml | Format::Json => 0,
        Format::KubectlDescribe => 1,
        _ => 2,
    };
    let mut known: BTreeMap<(usize, String), (usize, Value)> = BTreeMap::new();
    for piece in &evidence.pieces {
        let Contents::Objects(objects) = &piece.contents else { continue };
        for object in objects {
            let Some(kind) = object["kind"].as_str().and_then(|kind| KINDS.iter().position(|known| *known == kind))
            else {
                continue;
            };
            let metadata = &object["metadata"];
            let name = format!(
                "{}/{}",
                metadata["namespace"].as_str().unwrap_or("default"),
                metadata["name"].as_str().unwrap_or_default()
            );
            let own = (rank(piece.format), cleaned(object));
            let better = known.get(&(kind, name.clone())).is_none_or(|(rank, _)| own.0 < *rank);
            if better {
                known.insert((kind, name), own);
            }
        }
    }
    let items: Vec<Value> = known.into_values().map(|(_, object)| object).filter(is_usable).collect();
    (!items.is_empty()).then(|| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

/// The object without what only this stage knows.
fn cleaned(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("more");
        // A description of a Service lists its endpoints.
        if fields.get("kind").is_some_and(|kind| kind == "Service") {
            fields.remove("endpoints");
        }
    }
    object
}

/// A pod without an address or a node cannot be placed.
fn is_usable(object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Pod") => object["spec"]["nodeName"].is_string() || object["spec"]["containers"].is_array(),
        Some("EndpointSlice") => object["ports"].is_array() || object["endpoints"].is_array(),
        _ => true,
    }
}
