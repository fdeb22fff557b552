//! Entries of connection tables that a text shows → those that a scenario restores.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, ObjectName, Pod, Protocol};

use super::Assumption;
use super::endpoint_pods::address_name;
use super::objects::{Assumed, service_addresses};
use super::usual_ranges::wide;
use crate::evidence::{Connection, Contents, Evidence, NodeRules, Piece, node_rules};
use crate::scenario::{ConntrackEntry, Host, Scenario};
use crate::text::counted;

/// What becomes of the connections to Services that a text shows (`conntrack -L`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// They are counted, and those that no endpoint answers are named.
    LeftOut,
    /// The scenario has them in the tables of its nodes, with their senders.
    Restored,
}

/// The most entries that are restored, and the most senders that are added for them.
const MAX: usize = 2000;
const MAX_SENDERS: usize = 32;

/// The most entries that are named.
const MAX_NAMED: usize = 3;

/// Treats the entries of a text as asked, and returns the notes on them.
pub(super) fn connections(evidence: &Evidence, assumed: &mut Assumed, wanted: Connections) -> Vec<Assumption> {
    match wanted {
        Connections::LeftOut => notes(evidence, &assumed.scenario.cluster),
        Connections::Restored => restore(evidence, assumed).into_iter().map(Assumption::Assumed).collect(),
    }
}

/// How many entries there are, and which lead to an address that is not an endpoint.
fn notes(evidence: &Evidence, cluster: &Cluster) -> Vec<Assumption> {
    let entries: Vec<&Connection> =
        pieces(evidence).flat_map(|(_, entries)| entries).filter(|entry| entry.is_current).collect();
    if entries.is_empty() {
        return Vec::new();
    }
    let frontends = Frontends::of(evidence, cluster);
    let of_services: Vec<&Connection> = entries.iter().copied().filter(|entry| frontends.have(entry)).collect();
    let to_services = match (entries.len(), of_services.len()) {
        (1, 0) => "which is not to a Service".to_owned(),
        (1, _) => "which is to a Service".to_owned(),
        (_, 0) => "none of them to a Service".to_owned(),
        (all, count) if all == count => "all of them to Services".to_owned(),
        (_, count) => format!("{count} of them to Services"),
    };
    let words = format!(
        "connections are not restored without --connections: {} of the dump, {to_services}",
        counted(entries.len(), "entry")
    );
    let stale: Vec<&&Connection> = of_services.iter().filter(|entry| !frontends.have_endpoint(entry)).collect();
    // Without them, nothing may be wrong with the rules.
    let note = if stale.is_empty() { Assumption::Assumed } else { Assumption::StaleConnections };
    let mut notes = vec![note(words)];
    notes.extend(stale.into_iter().take(MAX_NAMED).map(|entry| {
        let (from, to) = (&entry.original, &entry.reply);
        let port = from.destination_port.map(|port| format!(" port {port}")).unwrap_or_default();
        let what = if to.source == from.destination {
            "is not translated".to_owned()
        } else {
            format!("leads to {}, which is not an endpoint of that Service", to.source)
        };
        Assumption::StaleConnections(format!(
            "the {} connection from {} to {}{port} (line {}) {what}",
            entry.protocol, from.source, from.destination, entry.line
        ))
    }));
    notes
}

/// Adds the entries of connections to Services to a scenario, each on the node whose text shows it. Their senders become pods where they have
/// addresses of a node's pods, else outside hosts.
fn restore(evidence: &Evidence, assumed: &mut Assumed) -> Vec<String> {
    if pieces(evidence).next().is_none() {
        return Vec::new();
    }
    let frontends = Frontends::of(evidence, &assumed.scenario.cluster);
    let (mut entries, mut others, mut known) = (Vec::new(), 0_usize, HashSet::new());
    for (piece, connections) in pieces(evidence) {
        let Some(node) = node_of(piece, assumed) else { continue };
        for connection in connections.iter().filter(|connection| connection.is_current) {
            let entry = entry(connection, &node).filter(|_| frontends.have(connection));
            let Some(entry) = entry else {
                others += 1;
                continue;
            };
            // `conntrack -E` reports an entry more than once.
            let tuples = [(entry.from, entry.to), (entry.reply_from, entry.reply_to)];
            let keys = tuples.map(|ends| (node.clone(), entry.protocol, ends));
            if keys.iter().any(|key| known.contains(key)) {
                continue;
            }
            known.extend(keys);
            entries.push(entry);
        }
    }
    if entries.is_empty() && others == 0 {
        return Vec::new();
    }
    let excess = entries.len().saturating_sub(MAX);
    entries.truncate(MAX);
    let senders = senders(&entries, &mut assumed.scenario);
    let mut notes = vec![restored(&entries, excess, others)];
    if !senders.is_empty() {
        let more = if senders.len() > MAX_NAMED { ", ..." } else { "" };
        let named = senders.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
        notes.push(format!("senders of these connections: {named}{more}"));
    }
    if senders.len() == MAX_SENDERS {
        notes.push(format!(
            "at most {MAX_SENDERS} senders of connections are added; packets of the others are not sent"
        ));
    }
    assumed.scenario.connections = entries;
    notes
}

/// How many entries are restored and where, and how many are not.
fn restored(entries: &[ConntrackEntry], excess: usize, others: usize) -> String {
    let nodes: BTreeSet<&str> = entries.iter().map(|entry| entry.node.as_str()).collect();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let place = if nodes.is_empty() { String::new() } else { format!(", on {}", nodes.join(", ")) };
    let left =
        if others > 0 { format!("; {others} others are not to a Service, or not readable") } else { String::new() };
    let excess =
        if excess > 0 { format!("; {excess} more are left out, at most {MAX} are restored") } else { String::new() };
    format!("{} restored{place}{excess}{left}", counted(entries.len(), "connection"))
}

/// The destinations of connections to Services.
struct Frontends<'c> {
    addresses: HashMap<IpAddr, Vec<&'c ObjectName>>,
    nodes: HashSet<IpAddr>,
    ports: HashSet<(Protocol, u16)>,
    node_ports: HashMap<(Protocol, u16), &'c ObjectName>,
    /// The addresses of endpoints of each Service.
    endpoints: HashMap<&'c ObjectName, HashSet<IpAddr>>,
    /// Whether the text shows all ports of Services: a connection to another port is one to a port that was removed.
    are_all: bool,
}

impl<'c> Frontends<'c> {
    fn of(evidence: &Evidence, cluster: &'c Cluster) -> Self {
        let mut found = Self {
            addresses: HashMap::new(),
            nodes: cluster.nodes.iter().flat_map(|node| node.addresses()).collect(),
            ports: HashSet::new(),
            node_ports: HashMap::new(),
            endpoints: HashMap::new(),
            are_all: node_rules(evidence).iter().all(NodeRules::has_translations),
        };
        for service in &cluster.services {
            for address in service_addresses(service) {
                found.addresses.entry(address).or_default().push(&service.name);
            }
            let ports = &service.ports;
            found.ports.extend(ports.iter().map(|port| (port.protocol, port.port)));
            let node_ports = ports.iter().filter_map(|port| Some(((port.protocol, port.node_port?), &service.name)));
            found.node_ports.extend(node_ports);
        }
        for slice in &cluster.slices {
            let addresses = slice.endpoints.iter().flat_map(|one| one.addresses.iter().copied());
            found.endpoints.entry(&slice.service).or_default().extend(addresses);
        }
        found
    }

    /// The Services that a connection was opened to.
    fn services(&self, connection: &Connection) -> Vec<&'c ObjectName> {
        let to = &connection.original;
        let port = connection.protocol.parse().ok().zip(to.destination_port);
        let is_port = self.are_all || port.is_some_and(|port| self.ports.contains(&port));
        let by_address = self.addresses.get(&to.destination).filter(|_| is_port).into_iter().flatten().copied();
        let is_node = self.nodes.contains(&to.destination);
        let by_node_port = port.and_then(|port| self.node_ports.get(&port).copied()).filter(|_| is_node);
        by_address.chain(by_node_port).collect()
    }

    /// Whether a connection was opened to one of them.
    fn have(&self, connection: &Connection) -> bool {
        !self.services(connection).is_empty()
    }

    /// Whether a connection to one of them leads to an endpoint of the Service.
    fn have_endpoint(&self, connection: &Connection) -> bool {
        let endpoints = self.services(connection).into_iter().filter_map(|service| self.endpoints.get(service));
        endpoints.flatten().any(|ip| *ip == connection.reply.source)
    }
}

/// The pieces with entries.
fn pieces(evidence: &Evidence) -> impl Iterator<Item = (&Piece, &[Connection])> {
    evidence.pieces.iter().filter_map(|piece| match &piece.contents {
        Contents::Connections(entries) => Some((piece, entries.as_slice())),
        _ => None,
    })
}

/// The node that a piece is of: its prompt or its file says so, else it is that with the rules.
fn node_of(piece: &Piece, assumed: &Assumed) -> Option<String> {
    let nodes = || assumed.scenario.cluster.nodes.iter().map(|node| &node.name);
    let by_host = || nodes().find(|name| piece.host.as_ref() == Some(*name));
    let by_file = || {
        let parts = piece.file.as_deref()?.split('/');
        parts.rev().find_map(|part| nodes().find(|name| part == *name || part.starts_with(&format!("{name}."))))
    };
    by_host().or_else(by_file).or_else(|| assumed.nodes.first()).cloned()
}

/// An entry as a scenario has it; `None` for one without ports.
fn entry(connection: &Connection, node: &str) -> Option<ConntrackEntry> {
    let protocol: Protocol = connection.protocol.parse().ok()?;
    let end = |ip: IpAddr, port: Option<u16>| Some(SocketAddr::new(ip, port.filter(|port| *port > 0)?));
    let (original, reply) = (&connection.original, &connection.reply);
    Some(ConntrackEntry {
        node: node.to_owned(),
        protocol,
        from: end(original.source, original.source_port)?,
        to: end(original.destination, original.destination_port)?,
        reply_from: end(reply.source, reply.source_port)?,
        reply_to: end(reply.destination, reply.destination_port)?,
        unreplied: connection.is_unreplied,
    })
}

/// Adds the machines that are not there and that connections come from. Returns what they are called.
fn senders(entries: &[ConntrackEntry], scenario: &mut Scenario) -> Vec<String> {
    let cluster = &scenario.cluster;
    let machines = cluster.nodes.iter().flat_map(|node| node.addresses());
    let pods = cluster.pods.iter().flat_map(|pod| pod.ips.iter().copied());
    let hosts = scenario.hosts.iter().flat_map(|host| host.ips.iter().copied());
    let mut known: HashSet<IpAddr> = machines.chain(pods).chain(hosts).collect();
    let mut added = Vec::new();
    for ip in entries.iter().map(|entry| entry.from.ip()) {
        if added.len() == MAX_SENDERS || ip.is_loopback() || !known.insert(ip) {
            continue;
        }
        let cluster = &mut scenario.cluster;
        let has = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&ip));
        let node = cluster.nodes.iter().find(|node| has(&node.pod_cidrs)).map(|node| node.name.clone());
        let name = address_name(ip);
        match node {
            Some(node) => {
                let name = ObjectName::new("default", name);
                added.push(format!("pod {name} on node {node}"));
                let (labels, ports) = (BTreeMap::new(), Vec::new());
                cluster.pods.push(Pod { name, node, ips: vec![ip], host_network: false, labels, ports });
            }
            // No outside host has an address like a pod's.
            None if cluster.nodes.iter().any(|node| is_near(&node.pod_cidrs, ip)) => {}
            None => {
                added.push(format!("host {name}"));
                scenario.hosts.push(Host { name, ips: vec![ip] });
            }
        }
    }
    added
}

/// Whether an address is in the range that ranges of nodes are part of.
fn is_near(ranges: &[IpNet], ip: IpAddr) -> bool {
    ranges.iter().any(|range| wide(*range, Family::of(range.addr())).contains(&ip))
}
