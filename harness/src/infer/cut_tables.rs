//! Endpoints of tables that are cut: `10.42.0.21:8080,10.42.1.33:8080 + 1 more...`. The listed ones are ready; others may be.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{endpoint_ips, name, own_name, service_of};
use crate::evidence::{ListedEndpoint, endpoints, has_unknown_readiness, marked};

/// Completes the Endpoints of which a table lists all addresses, and as many ports as their Service has: every port has all addresses.
pub(super) fn complete(endpoints: &mut [Value], services: &[Value]) {
    let named: HashMap<String, &Value> = services.iter().rev().map(|service| (name(service), service)).collect();
    for one in endpoints.iter_mut().filter(|one| one["grid"].is_object()) {
        let Some(service) = named.get(&service_of(one)) else { continue };
        let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
        if one["grid"]["count"] != ports.len() {
            continue;
        }
        let listed = one["grid"]["ports"].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let listed: Vec<u64> = listed.collect();
        let is_known = |target: u64, port: &Value| listed.contains(&target) || port["targetPort"] == target;
        let served = ports.iter().zip(targets(&ports, listed.clone())).map(|(port, target)| {
            let mut served = of_service(port, target);
            if !is_known(target, port) {
                served[ASSUMED] = true.into();
            }
            served
        });
        let addresses = one["grid"]["addresses"].as_array().into_iter().flatten().map(|ip| json!({"ip": ip}));
        let subset = json!({"addresses": addresses.collect::<Vec<_>>(), "ports": served.collect::<Vec<_>>()});
        one["subsets"] = json!([subset]);
        *one = marked(one.take(), false);
    }
}

/// The field of a port whose number nothing shows.
const ASSUMED: &str = "assumed";

/// Whether nothing shows the number of a port of a table's endpoints: rules may have another.
pub(super) fn has_assumed_ports(one: &Value) -> bool {
    ports_of_subsets(one).any(|port| port[ASSUMED] == true)
}

/// Removes the marks of ports whose numbers are assumed.
pub(super) fn remove_marks(one: &mut Value) {
    for subset in one["subsets"].as_array_mut().into_iter().flatten() {
        for port in subset["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().map(|fields| fields.remove(ASSUMED));
        }
    }
}

fn ports_of_subsets(one: &Value) -> impl Iterator<Item = &Value> {
    let subsets = one["subsets"].as_array().into_iter().flatten();
    subsets.flat_map(|subset| subset["ports"].as_array().into_iter().flatten())
}

/// Gives the ports of EndpointSlices the protocols that a table does not list: those of their Service's ports where it has as many; else a number
/// that is listed twice is that of TCP and of UDP.
pub(super) fn add_protocols(endpoints: &mut [Value], services: &[Value]) {
    let named: HashMap<String, &Value> = services.iter().rev().map(|service| (name(service), service)).collect();
    for one in endpoints.iter_mut().filter(|one| has_unknown_readiness(one)) {
        let ports = named.get(&service_of(one)).map(|service| service["spec"]["ports"].clone()).unwrap_or_default();
        let ports = ports.as_array().cloned().unwrap_or_default();
        let Some(listed) = one["ports"].as_array_mut() else { continue };
        if ports.len() == listed.len() && ports.len() > 1 {
            let targets = targets(&ports, listed.iter().filter_map(|port| port["port"].as_u64()).collect());
            let served = ports.iter().zip(targets);
            *listed = served.map(|(port, target)| of_service(port, target)).collect();
            continue;
        }
        let mut known: HashSet<(u64, bool)> = HashSet::new();
        listed.retain_mut(|port| {
            let number = port["port"].as_u64().unwrap_or_default();
            if known.insert((number, false)) {
                return true;
            }
            port["protocol"] = json!("UDP");
            known.insert((number, true))
        });
    }
}

/// A port of endpoints for one of a Service.
fn of_service(port: &Value, target: u64) -> Value {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    json!({"name": port["name"].as_str().unwrap_or_default(), "port": target, "protocol": protocol})
}

/// The port of the endpoints for each port of a Service: what is known of it, else the next of those that a table lists, else its own number.
fn targets(ports: &[Value], mut listed: Vec<u64>) -> Vec<u64> {
    let known: Vec<Option<u64>> = ports
        .iter()
        .map(|port| {
            let own = port["targetPort"].as_u64().or(port["port"].as_u64())?;
            let at = listed.iter().position(|number| *number == own)?;
            Some(listed.remove(at))
        })
        .collect();
    let mut rest = listed.into_iter();
    let own = |port: &Value| port["targetPort"].as_u64().or(port["port"].as_u64()).unwrap_or_default();
    known
        .into_iter()
        .zip(ports)
        .map(|(known, port)| known.or_else(|| rest.next()).unwrap_or_else(|| own(port)))
        .collect()
}

/// The EndpointSlices that rules show for a Service, with the endpoints that only tables list. These replace made-up endpoints.
pub(super) fn joined(mut slices: Vec<Value>, tables: &[&Value], made_up: &BTreeSet<IpAddr>) -> Vec<Value> {
    adopt_port(&mut slices, tables);
    let Some(first) = slices.first().cloned() else { return tables.iter().copied().cloned().collect() };
    for (ip, port) in tables.iter().copied().flat_map(listed).collect::<BTreeSet<_>>() {
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

/// Sets the only port of endpoints in rules to the only one that tables list for the same addresses, where they differ: the objects count.
fn adopt_port(slices: &mut [Value], tables: &[&Value]) {
    let all: Vec<(IpAddr, u64)> = tables.iter().copied().flat_map(listed).collect();
    let ports = |all: &mut dyn Iterator<Item = u64>| all.collect::<BTreeSet<u64>>();
    let own = ports(&mut slices.iter().filter_map(|slice| slice["ports"][0]["port"].as_u64()));
    let known = ports(&mut all.iter().map(|(_, port)| *port));
    let (Some(port), true) = (known.first(), own.len() == 1 && known.len() == 1) else { return };
    let listed: HashSet<IpAddr> = all.iter().map(|(ip, _)| *ip).collect();
    let has_listed = |slice: &Value| endpoint_ips(slice).iter().any(|ip| listed.contains(ip));
    for slice in slices.iter_mut().filter(|slice| has_listed(slice)) {
        slice["ports"][0]["port"] = json!(port);
    }
}

fn endpoint_addresses(endpoint: &Value) -> impl Iterator<Item = IpAddr> + '_ {
    let all = endpoint["addresses"].as_array().into_iter().flatten();
    all.filter_map(|address| address.as_str()?.parse().ok())
}

/// The endpoints that a table lists, without those that are taken as not ready.
fn listed(table: &Value) -> Vec<(IpAddr, u64)> {
    let all = endpoints(table).into_iter().filter(ListedEndpoint::is_ready).collect::<Vec<_>>();
    let assumed = ports_of_subsets(table).filter(|port| port[ASSUMED] == true);
    let assumed: HashSet<u64> = assumed.filter_map(|port| port["port"].as_u64()).collect();
    let of_endpoint = |endpoint: &ListedEndpoint<'_>| {
        let ports: Vec<u64> = endpoint.ports().filter(|port| !assumed.contains(port)).collect();
        let pairs = endpoint.addresses.iter().flat_map(|ip| ports.iter().map(|port| (*ip, *port)));
        pairs.collect::<Vec<_>>()
    };
    all.iter().flat_map(of_endpoint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::is_cut;

    /// `kubectl get endpoints` lists the addresses once for each port, but no protocol.
    #[test]
    fn every_port_has_the_addresses_that_a_table_repeats() {
        let metadata = json!({"name": "kube-dns", "namespace": "kube-system"});
        let ports = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 9153, "protocol": "TCP"}]);
        let service = json!({"kind": "Service", "metadata": metadata, "spec": {"ports": ports}});
        let grid = json!({"addresses": ["10.244.1.3", "10.244.2.4"], "ports": [53, 53], "count": 3});
        let mut all = [json!({"kind": "Endpoints", "metadata": metadata, "subsets": [], "grid": grid})]
            .map(|one| marked(one, true));
        complete(&mut all, &[service]);
        let [subset] = all[0]["subsets"].as_array().map(Vec::as_slice).unwrap_or_default() else { panic!("{all:?}") };
        assert_eq!((is_cut(&all[0]), subset["addresses"].as_array().map(Vec::len)), (false, Some(2)));
        let served = subset["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|port| (port["port"].as_u64(), port["protocol"].as_str()));
        let expected = [(Some(53), Some("UDP")), (Some(53), Some("TCP")), (Some(9153), Some("TCP"))];
        assert_eq!(served.collect::<Vec<_>>(), expected);
    }
}
