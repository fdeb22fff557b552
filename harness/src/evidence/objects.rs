//! Pieces with Kubernetes objects → each of them once.

use std::collections::BTreeMap;

use serde_json::Value;
use svclab_rules::infer::Infer;

use super::model::{Evidence, Format};
use super::namespaces::shown_objects;
use super::rules::node_rules;

/// The kinds of objects that rules depend on.
pub(super) const KINDS: [&str; 6] = ["Node", "Pod", "Service", "Endpoints", "EndpointSlice", "ServiceCIDR"];

/// The objects that rules depend on, by kind and name. Of an object that several pieces show, the most complete counts: a manifest before a
/// description before a table.
///
/// Endpoints of tables are marked as such, and descriptions of Services have the field `endpoints`: see `endpoints`.
pub(crate) fn objects(evidence: &Evidence) -> Vec<Value> {
    let rank = |format: Format| match format {
        Format::Yaml | Format::Json => 0,
        Format::KubectlDescribe => 1,
        _ => 2,
    };
    let mut known: BTreeMap<(usize, String), (usize, Value)> = BTreeMap::new();
    let ports = || node_rules(evidence).iter().flat_map(|node| node.rules.infer().ports).collect();
    for (piece, object) in shown_objects(evidence, ports) {
        let Some(kind) = object["kind"].as_str().and_then(|kind| KINDS.iter().position(|known| *known == kind)) else {
            continue;
        };
        let metadata = &object["metadata"];
        let name = format!(
            "{}/{}",
            metadata["namespace"].as_str().unwrap_or("default"),
            metadata["name"].as_str().unwrap_or_default()
        );
        let rank = rank(piece.format);
        if known.get(&(kind, name.clone())).is_none_or(|(other, _)| rank < *other) {
            known.insert((kind, name), (rank, object.into_owned()));
        }
    }
    known.into_values().map(|(_, object)| object).filter(is_usable).collect()
}

/// A pod without an address or a node cannot be placed.
fn is_usable(object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Pod") => object["spec"]["nodeName"].is_string() || object["spec"]["containers"].is_array(),
        Some("EndpointSlice") => object["ports"].is_array() || object["endpoints"].is_array(),
        _ => true,
    }
}
