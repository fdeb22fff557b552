//! Endpoints that only objects list, of Services whose rules lead to those of their own node: cluster IPs with policy Local.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::infer::InferredPort;

use super::super::accessors::service_of;
use super::super::merge::Objects;
use super::dump::Dump;
use crate::evidence::{ListedEndpoint, endpoints};

/// Adds them to what the rules of each node show: they are on other nodes.
pub(super) fn add_elsewhere(dumps: &mut [Dump], objects: &Objects) {
    let is_open = |port: &&mut InferredPort| {
        port.is_internal_local && port.endpoints.is_subset(&port.local) && port.unshown_endpoints.is_empty()
    };
    let mut ports = dumps.iter_mut().flat_map(|dump| &mut dump.inferred.ports).filter(is_open).peekable();
    if ports.peek().is_none() {
        return;
    }
    let mut listed: HashMap<String, BTreeSet<SocketAddr>> = HashMap::new();
    for object in &objects.endpoints {
        let ready = endpoints(object).into_iter().filter(ListedEndpoint::is_ready);
        listed.entry(service_of(object)).or_default().extend(ready.flat_map(|endpoint| sockets(&endpoint)));
    }
    for port in ports {
        let Some(all) = listed.get(&port.service.to_string()) else { continue };
        let numbers = |all: &BTreeSet<SocketAddr>| all.iter().map(SocketAddr::port).collect::<BTreeSet<u16>>();
        let own = if port.local.is_empty() { numbers(all) } else { numbers(&port.local) };
        let has_family = |ip: IpAddr| port.cluster_ips.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
        if own.len() == 1 {
            let of_port = all.iter().filter(|one| own.contains(&one.port()) && has_family(one.ip()));
            port.endpoints.extend(of_port);
        }
    }
}

/// The endpoints in rules for cluster IPs with policy Local, by Service: kube-proxy uses no others that are on the rules' own nodes.
pub(super) fn in_local_rules(dumps: &[Dump]) -> BTreeMap<String, BTreeSet<IpAddr>> {
    let shows_all = |port: &&InferredPort| {
        let is_shown = !port.local.is_empty() || port.has_endpoints_elsewhere;
        port.is_internal_local && is_shown && port.hidden_endpoints == 0 && port.unshown_endpoints.is_empty()
    };
    let mut all: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for port in dumps.iter().flat_map(|dump| &dump.inferred.ports).filter(shows_all) {
        let own = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip);
        all.entry(port.service.to_string()).or_default().extend(own);
    }
    all
}

fn sockets(endpoint: &ListedEndpoint<'_>) -> Vec<SocketAddr> {
    let ports: Vec<u16> = endpoint.ports().filter_map(|port| port.try_into().ok()).collect();
    endpoint.addresses.iter().flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port))).collect()
}
