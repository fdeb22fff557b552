//! Objects that a cluster's controllers create from others.
//!
//! Namespaces for the objects in them, and Endpoints from EndpointSlices, as created by the endpoints controller and read by kube-proxy up
//! to 1.18.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::object::Key;
use super::super::resource::Endpoint;
use super::{is_kind, key_of, namespace_of, text_at};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Adds the missing namespaces of objects, and those that every cluster has.
pub(super) fn add_namespaces(all: &mut Vec<(Endpoint, Value)>) {
    let mut names: BTreeSet<&str> = ["default", "kube-node-lease", "kube-public", "kube-system"].into();
    names.extend(all.iter().filter(|(end, _)| end.resource().namespaced).map(|(_, object)| namespace_of(object)));
    for object in objects_of_kind(all, "Namespace") {
        names.remove(text_at(object, "/metadata/name"));
    }
    let namespace = |name| {
        json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        })
    };
    let added: Vec<Value> = names.into_iter().map(namespace).collect();
    all.extend(added.into_iter().filter_map(|object| Some((Endpoint::from_object(&object)?, object))));
}

/// Creates the Endpoints of all services that have slices.
pub(super) fn endpoints<T>(all: &[(Endpoint, Value)], keep: impl Fn(Endpoint, Value) -> T) -> Vec<T> {
    let families: BTreeMap<Key, &str> =
        objects_of_kind(all, "Service").map(|object| (key_of(object), family(object))).collect();
    let made = slices_by_service(all).into_iter().filter_map(|(service, slices)| {
        let family = families.get(&service).copied().unwrap_or_else(|| text_at(slices[0], "/addressType"));
        let object = endpoints_of(&service, family, &slices);
        Some(keep(Endpoint::from_object(&object)?, object))
    });
    made.collect()
}

fn objects_of_kind<'a>(all: &'a [(Endpoint, Value)], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    all.iter().filter(move |(end, _)| is_kind(*end, kind)).map(|(_, object)| object)
}

fn slices_by_service(all: &[(Endpoint, Value)]) -> BTreeMap<Key, Vec<&Value>> {
    let mut slices: BTreeMap<Key, Vec<&Value>> = BTreeMap::new();
    for slice in objects_of_kind(all, "EndpointSlice") {
        let labels = slice.pointer("/metadata/labels");
        let service = labels.and_then(|labels| labels.get(SERVICE_NAME)?.as_str()).filter(|name| !name.is_empty());
        if let Some(service) = service {
            let key = Key { namespace: namespace_of(slice).to_owned(), name: service.to_owned() };
            slices.entry(key).or_default().push(slice);
        }
    }
    slices
}

/// Returns the first family of a service, whose addresses its Endpoints contain.
fn family(service: &Value) -> &str {
    let listed = text_at(service, "/spec/ipFamilies/0");
    let address = match text_at(service, "/spec/clusterIP") {
        "" => text_at(service, "/spec/clusterIPs/0"),
        address => address,
    };
    match (listed, address.contains(':')) {
        ("", true) => "IPv6",
        ("", false) => "IPv4",
        _ => listed,
    }
}

/// Creates the Endpoints of a service: a subset for each list of ports.
fn endpoints_of(Key { namespace, name }: &Key, family: &str, slices: &[&Value]) -> Value {
    let mut subsets: BTreeMap<String, Subset> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| text_at(slice, "/addressType") == family) {
        let ports = slice.get("ports").filter(|ports| !ports.is_null()).cloned().unwrap_or_else(|| json!([]));
        let subset = subsets.entry(ports.to_string()).or_insert_with(|| Subset { ports, ..Subset::default() });
        let listed = slice.get("endpoints").and_then(Value::as_array).into_iter().flatten();
        listed.for_each(|endpoint| subset.add(endpoint));
    }
    let subsets: Vec<Value> = subsets.into_values().filter_map(Subset::finish).collect();
    json!({
        "kind": "Endpoints",
        "apiVersion": "v1",
        // They must not be mirrored back.
        "metadata": {"namespace": namespace, "name": name, "labels": {SKIP_MIRROR: "true"}},
        "subsets": subsets,
    })
}

#[derive(Default)]
struct Subset {
    ports: Value,
    ready: BTreeMap<String, Value>,
    not_ready: BTreeMap<String, Value>,
}

impl Subset {
    /// Adds an endpoint; terminating endpoints that are not ready are omitted.
    fn add(&mut self, endpoint: &Value) {
        let condition = |name: &str| endpoint.get("conditions").and_then(|all| all.get(name)).and_then(Value::as_bool);
        let addresses = match (condition("ready").unwrap_or(true), condition("terminating").unwrap_or(false)) {
            (true, _) => &mut self.ready,
            (false, false) => &mut self.not_ready,
            (false, true) => return,
        };
        for address in endpoint.get("addresses").and_then(Value::as_array).into_iter().flatten() {
            let mut entry = json!({"ip": address});
            for field in ["nodeName", "hostname", "targetRef"] {
                if let Some(value) = endpoint.get(field).filter(|value| !value.is_null()) {
                    entry[field] = value.clone();
                }
            }
            addresses.insert(address.to_string(), entry);
        }
    }

    fn finish(self) -> Option<Value> {
        let mut subset = Map::new();
        for (name, addresses) in [("addresses", self.ready), ("notReadyAddresses", self.not_ready)] {
            if !addresses.is_empty() {
                subset.insert(name.to_owned(), addresses.into_values().collect());
            }
        }
        if subset.is_empty() {
            return None;
        }
        subset.insert("ports".to_owned(), self.ports);
        Some(Value::Object(subset))
    }
}
