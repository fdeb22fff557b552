//! Fields of Services that tables leave out.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;
use svclab_rules::infer::{Inferred, InferredPort};

use super::Assumption;
use super::accessors::{name, service_ips};
use crate::text::list;

/// The label of Services that another proxy than kube-proxy serves.
pub(crate) const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// Assumes the fields that would explain which rules are not there, of Services of a table: that another proxy serves them, or that their
/// load balancer sends to node ports or pods itself.
pub(super) fn explain_missing(services: &mut [Value], inferred: &Inferred) -> Vec<Assumption> {
    let mut assumed = Vec::new();
    for service in services.iter_mut().filter(|service| is_of_table(service)) {
        let own = name(service);
        let ips = service_ips(service);
        let is_own = |port: &&InferredPort| {
            port.service.to_string() == own || port.cluster_ips.iter().any(|ip| ips.contains(ip))
        };
        let ports: Vec<&InferredPort> = inferred.ports.iter().filter(is_own).collect();
        let is_served = service["spec"]["clusterIP"].as_str().is_some_and(|ip| ip != "None");
        if ports.is_empty() && is_served && !inferred.ports.is_empty() {
            service["metadata"]["labels"][PROXY_NAME_LABEL] = json!("other");
            let words = format!(
                "{PROXY_NAME_LABEL}: a label of {own}, which a table does not show: the rules have nothing of this Service"
            );
            assumed.push(Assumption::Setting { name: PROXY_NAME_LABEL, words });
        } else if let Some(words) = explain_addresses(service, &ports, &own) {
            assumed.push(Assumption::Setting { name: "ipMode", words });
        }
    }
    assumed
}

/// Assumes `ipMode: Proxy` of the load balancer's addresses that no rule of the Service has. Returns that in words.
fn explain_addresses(service: &mut Value, ports: &[&InferredPort], own: &str) -> Option<String> {
    let known: BTreeSet<IpAddr> =
        ports.iter().flat_map(|port| port.external_ips.iter().chain(&port.load_balancer)).copied().collect();
    let families: BTreeSet<Family> = ports.iter().flat_map(|port| port.families.iter().copied()).collect();
    let mut unserved = Vec::new();
    for ingress in service["status"]["loadBalancer"]["ingress"].as_array_mut().into_iter().flatten() {
        let Some(ip) = ingress["ip"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else { continue };
        if families.contains(&Family::of(ip)) && !known.contains(&ip) {
            ingress["ipMode"] = json!("Proxy");
            unserved.push(ip);
        }
    }
    let words =
        || format!("ipMode Proxy of {own}, which a table does not show: no rule has {}", list(&unserved, SHOWN));
    (!unserved.is_empty()).then(words)
}

/// The most addresses that are named.
const SHOWN: usize = 5;

/// Whether a Service is that of a table, which does not show the names of ports.
fn is_of_table(service: &Value) -> bool {
    service["spec"]["ports"].as_array().is_some_and(|ports| ports.iter().any(is_made_up))
}

/// Adds the fields that only the rules show to a Service.
pub(super) fn fill_service(service: &mut Value, shown: &Value) {
    let ports = shown["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let protocol = |one: &Value| one["protocol"].as_str().unwrap_or("TCP").to_owned();
    let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let is_same = |other: &&Value| other["port"] == port["port"] && protocol(other) == protocol(port);
        let Some(known) = ports.iter().find(is_same).or(ports.first().filter(|_| count == 1 && ports.len() == 1))
        else {
            continue;
        };
        let is_made_up = is_made_up(port);
        if is_made_up && known["name"].is_null() {
            port.as_object_mut().map(|fields| fields.remove("name"));
        }
        for field in ["name", "targetPort", "nodePort"] {
            let is_missing = port[field].is_null() || field == "name" && (port[field] == "" || is_made_up);
            // In a manifest, a port without `targetPort` has its own number as one; tables show none.
            let is_default = field == "targetPort" && !is_made_up;
            if is_missing && !is_default && !known[field].is_null() {
                port[field] = known[field].clone();
            }
        }
    }
    add_other_family(service, shown);
    name_external_ips(service, shown);
    for field in [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "sessionAffinity",
        "sessionAffinityConfig",
        "loadBalancerSourceRanges",
    ] {
        let clashes = match field {
            // A policy for outside traffic needs a type that has some.
            "externalTrafficPolicy" => {
                matches!(service["spec"]["type"].as_str(), None | Some("ClusterIP"))
                    && service["spec"]["externalIPs"].is_null()
            }
            "healthCheckNodePort" | "loadBalancerSourceRanges" => service["spec"]["type"] != "LoadBalancer",
            "clusterIPs" | "ipFamilies" | "ipFamilyPolicy" => {
                service["spec"]["clusterIP"] != shown["spec"]["clusterIP"]
            }
            _ => false,
        };
        if service["spec"][field].is_null() && !shown["spec"][field].is_null() && !clashes {
            service["spec"][field] = shown["spec"][field].clone();
        }
    }
}

/// Adds the address of the other family that rules show: a table has a Service's first one alone.
fn add_other_family(service: &mut Value, shown: &Value) {
    let spec = &service["spec"];
    let is_of_table = spec["ipFamilies"].is_null() && spec["clusterIPs"].as_array().is_none_or(|all| all.len() < 2);
    let Some(first) = spec["clusterIP"].as_str().filter(|_| is_of_table) else { return };
    let all: Vec<&str> =
        shown["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let family = |ip: &str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    // Rules of one family show that one alone; of the same family with another address, they contradict the table.
    let contradicts = all.iter().any(|ip| family(ip) == family(first)) && !all.contains(&first);
    let Some(second) = all.iter().find(|ip| family(ip) != family(first)).filter(|_| !contradicts) else { return };
    let (ips, families) = (json!([first, second]), json!([family(first), family(second)]));
    service["spec"]["clusterIPs"] = ips;
    service["spec"]["ipFamilies"] = families;
    service["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
}

/// Makes addresses of a load balancer external IPs where rules show them to be some: a table has both in one column.
fn name_external_ips(service: &mut Value, shown: &Value) {
    if service["spec"]["type"] != "LoadBalancer" || !service["spec"]["externalIPs"].is_null() {
        return;
    }
    let external = shown["spec"]["externalIPs"].as_array().cloned().unwrap_or_default();
    let Some(ingress) = service["status"]["loadBalancer"]["ingress"].as_array_mut() else { return };
    let moved: Vec<Value> = ingress.extract_if(.., |one| external.contains(&one["ip"])).collect();
    if !moved.is_empty() {
        service["spec"]["externalIPs"] = moved.iter().map(|one| one["ip"].clone()).collect();
    }
}

/// Whether a port's name is the one that the reader of tables made up: `p80-tcp`.
fn is_made_up(port: &Value) -> bool {
    let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
    port["name"].as_str().is_some_and(|name| name == format!("p{}-{protocol}", port["port"]))
}

/// Several ports need names; one has none unless it is known.
pub(super) fn name_ports(service: &mut Value) {
    if let Some([only]) = service["spec"]["ports"].as_array_mut().map(Vec::as_mut_slice)
        && is_made_up(only)
    {
        only.as_object_mut().map(|fields| fields.remove("name"));
    }
    let Some(ports) = service["spec"]["ports"].as_array_mut().filter(|ports| ports.len() > 1) else { return };
    for port in ports {
        if port["name"].as_str().is_none_or(str::is_empty) {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            port["name"] = format!("{protocol}-{}", port["port"]).into();
        }
    }
}
