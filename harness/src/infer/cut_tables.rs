//! Endpoints of tables that are cut: `10.42.0.21:8080,10.42.1.33:8080 + 1 more...`. The listed ones are ready; others may be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{endpoint_ips, own_name};

/// Whether a table leaves some of these endpoints out.
pub(super) fn is_cut(endpoints: &Value) -> bool {
    endpoints["more"] == true
}

/// The EndpointSlices that rules show for a Service, and what tables list of it besides.
pub(super) fn joined(mut slices: Vec<Value>, tables: &[Value]) -> Vec<Value> {
    let Some(first) = slices.first().cloned() else { return tables.to_vec() };
    for (ip, port) in tables.iter().flat_map(listed).collect::<BTreeSet<_>>() {
        let family = Family::of(ip).to_string();
        let is_of_port =
            |slice: &&mut Value| slice["ports"][0]["port"] == port && slice["addressType"] == family.as_str();
        let endpoint = json!({"addresses": [ip], "conditions": {"ready": true}});
        match slices.iter_mut().find(is_of_port) {
            Some(slice) if endpoint_ips(slice).contains(&ip) => {}
            Some(slice) => slice["endpoints"].as_array_mut().into_iter().for_each(|all| all.push(endpoint.clone())),
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

/// The endpoints that a table lists.
fn listed(table: &Value) -> Vec<(IpAddr, u64)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let parts: Vec<(Vec<Value>, Vec<Value>)> = match table["kind"].as_str() {
        Some("Endpoints") => {
            let of = |subset: &Value| (list(&subset["ports"]), list(&subset["addresses"]));
            list(&table["subsets"])
                .iter()
                .map(of)
                .map(|(ports, all)| (ports, all.iter().map(|one| one["ip"].clone()).collect()))
                .collect()
        }
        _ => {
            let addresses =
                list(&table["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"])).collect();
            vec![(list(&table["ports"]), addresses)]
        }
    };
    let pairs = parts.iter().flat_map(|(ports, addresses)| {
        let ports: Vec<u64> = ports.iter().filter_map(|port| port["port"].as_u64()).collect();
        let addresses = addresses.iter().filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok());
        addresses.flat_map(move |ip| ports.clone().into_iter().map(move |port| (ip, port))).collect::<Vec<_>>()
    });
    pairs.collect()
}
