//! The connection table against rules.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::infer::InferredPort;

use super::finding::Finding;
use super::view::View;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let mut by_address: HashMap<(IpAddr, &str), Vec<&InferredPort>> = HashMap::new();
    for port in view.ports.iter().flatten() {
        for address in port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer) {
            by_address.entry((*address, port.protocol.as_str())).or_default().push(port);
        }
    }
    let mut found = Vec::new();
    for (place, entry) in &view.connections {
        let to = entry.original.destination;
        let own = by_address.get(&(to, entry.protocol.as_str())).into_iter().flatten();
        let mut own = own.filter(|port| port.port.is_none_or(|port| Some(port) == entry.original.destination_port));
        let Some(port) = own.next() else { continue };
        let answers = entry.reply.source;
        let endpoints: BTreeSet<SocketAddr> = port.endpoints.iter().chain(&port.local).copied().collect();
        let service = &port.service;
        if answers == to {
            let (what, id) = match (entry.protocol.as_str(), entry.state.as_deref()) {
                ("tcp", Some(state)) if state != "SYN_SENT" && state != "SYN_RECV" => continue,
                ("tcp", _) => ("the connection was opened before the rules were there", "untranslated-entry"),
                _ => ("packets of this client keep the entry alive", "untranslated-entry"),
            };
            let message = format!("an entry for {service} is not translated: its reply is expected from {to}");
            let effect = format!(
                "{what}: packets of {}:{} never reach an endpoint until it expires",
                entry.original.source,
                entry.original.source_port.unwrap_or(0)
            );
            found.push(Finding::new(id, place.clone(), message, effect));
        } else if !endpoints.is_empty()
            && !endpoints.iter().any(|endpoint| endpoint.ip() == answers)
            && entry.protocol != "tcp"
        {
            let message = format!("an entry for {service} leads to {answers}, which is not an endpoint in the rules");
            let effect = format!(
                "packets of {}:{} go to an endpoint that is gone, as long as they keep coming",
                entry.original.source,
                entry.original.source_port.unwrap_or(0)
            );
            found.push(Finding::new("stale-entry", place.clone(), message, effect));
        }
    }
    found
}
