//! The endpoints in Kubernetes objects, and what the readers of tables mark in these.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

/// The field in which the readers of tables and descriptions say whether endpoints are left out.
const MARK: &str = "more";

static NOTHING: Value = Value::Null;

/// An endpoint in an object.
pub(crate) struct ListedEndpoint<'v> {
    pub(crate) addresses: Vec<IpAddr>,
    ports: Vec<(&'v str, u64)>,
    conditions: &'v Value,
}

impl ListedEndpoint<'_> {
    /// The numbers of its ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u64> + '_ {
        self.ports.iter().map(|(_, number)| *number)
    }

    /// The names of its ports; empty where a port has none.
    pub(crate) fn port_names(&self) -> impl Iterator<Item = String> + '_ {
        self.ports.iter().map(|(name, _)| (*name).to_owned())
    }

    /// Whether it is ready, which is the default.
    pub(crate) fn is_ready(&self) -> bool {
        self.conditions["ready"] != false
    }

    /// Whether it serves while it is terminating: kube-proxy uses it if no other one is ready.
    pub(crate) fn serves_terminating(&self) -> bool {
        self.conditions["serving"] == true && self.conditions["terminating"] == true
    }
}

/// The endpoints in an EndpointSlice or Endpoints, and in the description of a Service.
pub(crate) fn endpoints(object: &Value) -> Vec<ListedEndpoint<'_>> {
    match object["kind"].as_str() {
        Some("Endpoints") => list(&object["subsets"]).flat_map(of_subset).collect(),
        Some("EndpointSlice") => {
            let (ports, endpoints) = (ports(&object["ports"]), list(&object["endpoints"]));
            let addresses = |endpoint: &Value| list(&endpoint["addresses"]).filter_map(ip).collect();
            endpoints
                .map(|one| ListedEndpoint {
                    addresses: addresses(one),
                    ports: ports.clone(),
                    conditions: &one["conditions"],
                })
                .collect()
        }
        Some("Service") => {
            let all = list(&object["endpoints"]).filter_map(|one| one.as_str()?.parse::<SocketAddr>().ok());
            let listed = |one: SocketAddr| ListedEndpoint {
                addresses: vec![one.ip()],
                ports: vec![("", one.port().into())],
                conditions: &NOTHING,
            };
            all.map(listed).collect()
        }
        _ => Vec::new(),
    }
}

fn of_subset(subset: &Value) -> impl Iterator<Item = ListedEndpoint<'_>> {
    let addresses = list(&subset["addresses"]).filter_map(|address| ip(&address["ip"]));
    let ports = ports(&subset["ports"]);
    addresses.map(move |ip| ListedEndpoint { addresses: vec![ip], ports: ports.clone(), conditions: &NOTHING })
}

/// The names and numbers of ports.
fn ports(listed: &Value) -> Vec<(&str, u64)> {
    list(listed).filter_map(|port| Some((port["name"].as_str().unwrap_or_default(), port["port"].as_u64()?))).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn ip(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

/// Marks an object as one of a table or description, some of whose endpoints may be left out.
pub(crate) fn marked(mut object: Value, is_cut: bool) -> Value {
    object[MARK] = json!(is_cut);
    object
}

/// Whether a table or description leaves some of these endpoints out.
pub(crate) fn is_cut(object: &Value) -> bool {
    object[MARK] == true
}

/// Whether endpoints or a node are those of a table: it has no column for the nodes of endpoints, and shows one address of a node.
pub(crate) fn is_from_table(object: &Value) -> bool {
    object[MARK].is_boolean()
}

/// Whether endpoints are those of a table of EndpointSlices, which does not show which of them are ready.
pub(crate) fn has_unknown_readiness(object: &Value) -> bool {
    object["kind"] == "EndpointSlice" && is_from_table(object)
}

/// Removes what only the readers of evidence add to objects.
pub(crate) fn remove_marks(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(MARK);
        fields.remove("grid");
        if fields["kind"] == "Service" {
            fields.remove("endpoints");
        }
    }
}
