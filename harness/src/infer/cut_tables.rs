//! Endpoints of tables that are cut: `10.42.0.21:8080,10.42.1.33:8080 + 1 more...`. The listed ones are ready; others may be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{endpoint_ips, own_name};
use crate::evidence::{ListedEndpoint, endpoints};

/// The EndpointSlices that rules show for a Service, and what tables list of it besides. That counts instead of endpoints that are made up.
pub(super) fn joined(mut slices: Vec<Value>, tables: &[Value], made_up: &BTreeSet<IpAddr>) -> Vec<Value> {
    let Some(first) = slices.first().cloned() else { return tables.to_vec() };
    for (ip, port) in tables.iter().flat_map(listed).collect::<BTreeSet<_>>() {
        let family = Family::of(ip).to_string();
        let is_of_port =
            |slice: &&mut Value| slice["ports"][0]["port"] == port && slice["addressType"] == family.as_str();
        let endpoint = json!({"addresses": [ip], "conditions": {"ready": true}});
        match slices.iter_mut().find(is_of_port) {
            Some(slice) if endpoint_ips(slice).contains(&ip) => {}
            Some(slice) => {
                let is_real = |one: &Value| endpoint_addresses(one).any(|ip| !made_up.contains(&ip));
                let endpoints = slice["endpoints"].as_array().into_iter().flatten().filter(|one| is_real(one));
                slice["endpoints"] = endpoints.cloned().chain([endpoint]).collect();
            }
            None => {
                let mut slice = first.clone();
                slice["metadata"]["name"] = json!(format!("{}-{port}-{family}", own_name(&first)).to_lowercase());
                slice["addressType"] = json!(family);
                slice["ports"] = json!([{"port": port, "protocol": "TCP"}]);
                slice["endpoints"] = json!([endpoint]);
                slices.push(slice);
            }
        }
    }
    slices
}

fn endpoint_addresses(endpoint: &Value) -> impl Iterator<Item = IpAddr> + '_ {
    let all = endpoint["addresses"].as_array().into_iter().flatten();
    all.filter_map(|address| address.as_str()?.parse().ok())
}

/// The endpoints that a table lists.
fn listed(table: &Value) -> Vec<(IpAddr, u64)> {
    let all = endpoints(table);
    let of_endpoint = |endpoint: &ListedEndpoint<'_>| {
        let ports: Vec<u64> = endpoint.ports().collect();
        let pairs = endpoint.addresses.iter().flat_map(|ip| ports.iter().map(|port| (*ip, *port)));
        pairs.collect::<Vec<_>>()
    };
    all.iter().flat_map(of_endpoint).collect()
}
