//! Pieces with Kubernetes objects → each of them once.

use std::collections::BTreeMap;

use serde_json::Value;
use svclab_rules::infer::Infer;

use super::endpoints::is_cut;
use super::model::{Evidence, Format};
use super::namespaces::shown_objects;
use super::rules::node_rules;
use super::service_fields::fill_manifest;

/// The kinds of objects that rules depend on.
pub(super) const KINDS: [&str; 6] = ["Node", "Pod", "Service", "Endpoints", "EndpointSlice", "ServiceCIDR"];

/// The objects that rules depend on, by kind and name. Of an object that several pieces show, the most complete counts: a manifest before a
/// description before a table; a manifest that people wrote gets what it lacks from these.
///
/// Endpoints of tables are marked as such, and descriptions of Services have the field `endpoints`: see `endpoints`.
/// The field `served` of a description has the Endpoints that it lists.
pub(crate) fn objects(evidence: &Evidence) -> Vec<Value> {
    let rank = |format: Format| match format {
        Format::Yaml | Format::Json => 0,
        Format::KubectlDescribe => 1,
        _ => 2,
    };
    let mut known: BTreeMap<(usize, String), Vec<(usize, Value)>> = BTreeMap::new();
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
        known.entry((kind, name)).or_default().push((rank, object));
    }
    known.into_values().filter_map(most_complete).filter(is_usable).collect()
}

/// The most complete of the objects that a text shows for one, the first of several; a Service that people wrote gets its addresses and node ports
/// from the others.
fn most_complete(mut shown: Vec<(usize, Value)>) -> Option<Value> {
    shown.sort_by_key(|(rank, _)| *rank);
    let mut all = shown.into_iter();
    let (best, mut object) = all.next()?;
    if object["kind"] == "Service" && best == 0 {
        all.filter(|(rank, _)| *rank > 0).for_each(|(_, other)| fill_manifest(&mut object, &other));
    }
    Some(object)
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
