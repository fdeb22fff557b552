//! Fields of Services that no table shows, and that explain why rules are not there.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;
use svclab_rules::infer::{Inferred, InferredPort};

use super::Assumption;
use super::accessors::{name, service_ips};
use crate::evidence::is_service_of_table;
use crate::text::list;

/// The label of Services that another proxy than kube-proxy serves.
pub(crate) const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// Service ports of rules, by what they are known by.
type Ports<'p, K> = HashMap<K, Vec<&'p InferredPort>>;

/// Assumes the fields that would explain which rules are not there, of Services of a table: that another proxy serves them, or that their
/// load balancer sends to node ports or pods itself.
pub(super) fn explain_missing(services: &mut [Value], inferred: &Inferred) -> Vec<Assumption> {
    let (mut by_name, mut by_address) = (Ports::<String>::new(), Ports::<IpAddr>::new());
    for port in &inferred.ports {
        by_name.entry(port.service.to_string()).or_default().push(port);
        port.cluster_ips.iter().for_each(|ip| by_address.entry(*ip).or_default().push(port));
    }
    let mut assumed = Vec::new();
    for service in services.iter_mut().filter(|service| is_service_of_table(service)) {
        let own = name(service);
        let of_addresses = service_ips(service).into_iter().filter_map(|ip| by_address.get(&ip));
        let ports: Vec<&InferredPort> = by_name.get(&own).into_iter().chain(of_addresses).flatten().copied().collect();
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
