//! Objects that controllers of a cluster make of others.
//!
//! Namespaces for the objects that are in them; Endpoints of EndpointSlices, which kube-proxy up to 1.18 reads, as the endpoints
//! controller has them; and EndpointSlices of Endpoints, as the mirroring controller has them.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::resource::Endpoint;
use super::{is_kind, namespace_of, text_at};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Namespace and name of a service.
type ServiceKey = (String, String);

/// Adds the namespaces and slices that are missing.
pub(super) fn complete(all: &mut Vec<(Endpoint, Value)>) {
    let slices = slices_by_service(all);
    let lacking = of_kind(all, "Endpoints").filter(|object| !slices.contains_key(&key(object)));
    let mut added: Vec<Value> = lacking.flat_map(mirrored).collect();
    added.extend(namespaces(all));
    all.extend(added.into_iter().filter_map(|object| Some((Endpoint::of_object(&object)?, object))));
}

/// What is kept of the Endpoints of services that have slices only.
pub(super) fn endpoints<T>(all: &[(Endpoint, Value)], keep: impl Fn(Endpoint, Value) -> T) -> Vec<T> {
    let named: BTreeSet<ServiceKey> = of_kind(all, "Endpoints").map(key).collect();
    let families: BTreeMap<ServiceKey, &str> =
        of_kind(all, "Service").map(|object| (key(object), family(object))).collect();
    let lacking = slices_by_service(all).into_iter().filter(|(service, _)| !named.contains(service));
    let made = lacking.filter_map(|(service, slices)| {
        let family = families.get(&service).copied().unwrap_or_else(|| text_at(slices[0], "/addressType"));
        let object = endpoints_of(&service, family, &slices);
        Some(keep(Endpoint::of_object(&object)?, object))
    });
    made.collect()
}

fn of_kind<'a>(all: &'a [(Endpoint, Value)], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    all.iter().filter(move |(end, _)| is_kind(*end, kind)).map(|(_, object)| object)
}

fn key(object: &Value) -> ServiceKey {
    (namespace_of(object).to_owned(), text_at(object, "/metadata/name").to_owned())
}

fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(name)?.as_str().filter(|value| !value.is_empty())
}

fn slices_by_service(all: &[(Endpoint, Value)]) -> BTreeMap<ServiceKey, Vec<&Value>> {
    let mut slices: BTreeMap<ServiceKey, Vec<&Value>> = BTreeMap::new();
    for slice in of_kind(all, "EndpointSlice") {
        if let Some(service) = label(slice, SERVICE_NAME) {
            slices.entry((namespace_of(slice).to_owned(), service.to_owned())).or_default().push(slice);
        }
    }
    slices
}

/// The first family of a service, whose addresses its Endpoints have.
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

/// The Endpoints of a service: a subset for each list of ports.
fn endpoints_of((namespace, name): &ServiceKey, family: &str, slices: &[&Value]) -> Value {
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
        // Nothing is to be mirrored back.
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
    /// Endpoints that terminate and are not ready are left out.
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

/// The slices that mirror Endpoints: one for each subset and family.
fn mirrored(endpoints: &Value) -> Vec<Value> {
    if label(endpoints, SKIP_MIRROR) == Some("true") {
        return Vec::new();
    }
    let (namespace, service) = key(endpoints);
    let subsets = endpoints.get("subsets").and_then(Value::as_array).into_iter().flatten();
    let mut slices = Vec::new();
    for (index, subset) in subsets.enumerate() {
        for family in ["IPv4", "IPv6"] {
            let listed = [("addresses", true), ("notReadyAddresses", false)].map(|(name, ready)| {
                let addresses = subset.get(name).and_then(Value::as_array).into_iter().flatten();
                let own = addresses.filter(|address| text_at(address, "/ip").contains(':') == (family == "IPv6"));
                own.map(move |address| mirrored_endpoint(address, ready)).collect::<Vec<_>>()
            });
            let listed = listed.concat();
            if listed.is_empty() {
                continue;
            }
            let digest = HEXLOWER.encode(&Sha256::digest(format!("{service}/{index}/{family}"))[..3]);
            slices.push(json!({
                "kind": "EndpointSlice",
                "apiVersion": "discovery.k8s.io/v1",
                "metadata": {
                    "namespace": namespace,
                    "name": format!("{service}-{}", &digest[..5]),
                    "labels": {SERVICE_NAME: service, MANAGED_BY: "endpointslicemirroring-controller.k8s.io"},
                },
                "addressType": family,
                "ports": subset.get("ports").filter(|ports| !ports.is_null()).cloned().unwrap_or_else(|| json!([])),
                "endpoints": listed,
            }));
        }
    }
    slices
}

fn mirrored_endpoint(address: &Value, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [text_at(address, "/ip")], "conditions": {"ready": ready}});
    for field in ["nodeName", "hostname", "targetRef"] {
        if let Some(value) = address.get(field).filter(|value| !value.is_null()) {
            endpoint[field] = value.clone();
        }
    }
    endpoint
}

/// The namespaces that no object names, besides those that every cluster has.
fn namespaces(all: &[(Endpoint, Value)]) -> Vec<Value> {
    let mut names: BTreeSet<&str> = ["default", "kube-node-lease", "kube-public", "kube-system"].into();
    names.extend(all.iter().filter(|(end, _)| end.resource().namespaced).map(|(_, object)| namespace_of(object)));
    for object in of_kind(all, "Namespace") {
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
    names.into_iter().map(namespace).collect()
}
