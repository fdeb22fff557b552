//! Pieces with Kubernetes objects → each of them once.

use std::collections::BTreeMap;

use serde_json::Value;
use svclab_rules::infer::Infer;

use super::endpoints::is_cut;
use super::model::{Evidence, Format};
use super::namespaces::shown_objects;
use super::rules::node_rules;

/// The kinds of objects that rules depend on.
pub(super) const KINDS: [&str; 6] = ["Node", "Pod", "Service", "Endpoints", "EndpointSlice", "ServiceCIDR"];

/// The objects that rules depend on, by kind and name. Of an object that several pieces show, the most complete counts: a manifest before a
/// description before a table.
///
/// Endpoints of tables are marked as such, and descriptions of Services have the field `endpoints`: see `endpoints`.
/// The field `served` of a description has the Endpoints that it lists.
pub(crate) fn objects(evidence: &Evidence) -> Vec<Value> {
    let rank = |format: Format| match format {
        Format::Yaml | Format::Json => 0,
        Format::KubectlDescribe => 1,
        _ => 2,
    };
    let mut known: BTreeMap<(usize, String), (usize, Value)> = BTreeMap::new();
    let ports = || node_rules(evidence).iter().flat_map(|node| node.rules.infer().ports).collect();
    let shown = shown_objects(evidence, ports).into_iter().flat_map(|(piece, object)| {
        let mut object = object.into_owned();
        let served = object.as_object_mut().and_then(|fields| fields.remove("served"));
        let metadata = object["metadata"].clone();
        let endpoints = served.map(|mut endpoints| {
            endpoints["metadata"] = metadata;
            endpoints
        });
        std::iter::once(object).chain(endpoints).map(move |object| (piece, object))
    });
    for (piece, object) in shown {
        let Some(kind) = object["kind"].as_str().and_then(|kind| KINDS.iter().position(|known| *known == kind)) else {
            continue;
        };
        let metadata = &object["metadata"];
        let name = format!(
            "{}/{}",
            metadata["namespace"].as_str().unwrap_or("default"),
            metadata["name"].as_str().unwrap_or_default()
        );
        // What a table or description cuts off may be in another.
        let is_cut = is_cut(&object) && object["kind"] != "Service";
        let rank = rank(piece.format) + if is_cut { CUT } else { 0 };
        if known.get(&(kind, name.clone())).is_none_or(|(other, _)| rank < *other) {
            known.insert((kind, name), (rank, object));
        }
    }
    known.into_values().map(|(_, object)| object).filter(is_usable).collect()
}

/// The rank of what is cut, after that of all formats.
const CUT: usize = 3;

/// A pod without an address or a node cannot be placed.
fn is_usable(object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Pod") => object["spec"]["nodeName"].is_string() || object["spec"]["containers"].is_array(),
        Some("EndpointSlice") => object.get("ports").or(object.get("endpoints")).is_some(),
        _ => true,
    }
}
