//! Probes: sender, destination and packets, once for each address family.

use std::net::SocketAddr;

use svclab_rules::cluster::{Cluster, Family, Node, ObjectName, Protocol, ServicePort};

use super::findings::Findings;
use super::hosts_and_rules::family;
use super::lookup::Scene;
use super::probe_ends::Ends;
use super::shapes;
use crate::input::limits;
use crate::input::listed;
use crate::scenario::listeners::served_at;
use crate::scenario::model::{Destination, Flows, Place as RulesPlace, Probe, TcpFlags, Vantage};
use crate::scenario::schema::{RawFlows, RawProbe, RawTcpFlag};
use crate::yaml::{At, Place};

/// A probe of one family, and the Service that it goes to.
pub(crate) struct ResolvedProbe {
    /// The probe.
    pub(crate) probe: Probe,
    /// The Service and its port, if the destination is one of a Service's addresses.
    pub(crate) service: Option<(ObjectName, ServicePort)>,
}

/// Resolves the probes of one section.
pub(crate) fn probes(raw: &RawProbe, at: At<'_>, scene: &Scene<'_, '_>, findings: &mut Findings) -> Vec<ResolvedProbe> {
    let from = scene.vantage(&raw.from, at.field("from"), findings);
    let to = scene.destination(&raw.to, at.field("to"), findings);
    let flows = flows(raw, at, findings);
    let (Some((from, sources)), Some(to)) = (from, to) else { return Vec::new() };
    check_loopback(&from, &to, scene, at, findings);
    check_handed(&from, &to, at, findings);
    check_is_on(&from, scene.now.1, at, findings);
    let Some(protocol) = protocol(raw, &to, at, findings) else { return Vec::new() };
    if let Some(port) = raw.source_port {
        check_source_port(&from, (protocol, port), scene, at, findings);
    }
    let tcp_flags = tcp_flags(raw, protocol, &from, scene, at, findings);
    let shape = shapes::shape(raw, protocol, has_kernel(&from, scene), at, findings);
    let sources: Vec<Family> = sources.into_iter().map(Family::of).collect();
    let chosen = choose(raw, &sources, &to, at, findings);
    chosen.iter().for_each(|to| shapes::check_size(shape, *to, &from, scene.now.1, at, findings));
    let resolved = |address: SocketAddr| ResolvedProbe {
        probe: Probe {
            span: at.span(),
            from: from.clone(),
            to: Destination { label: raw.to.clone(), address: address.ip(), port: address.port(), via: to.via.clone() },
            protocol,
            source_port: raw.source_port,
            flows,
            tcp_flags,
            shape,
        },
        service: to.service.clone(),
    };
    chosen.into_iter().map(resolved).collect()
}

/// Returns the destination addresses in families that the sender also has.
fn choose(raw: &RawProbe, sources: &[Family], to: &Ends, at: At<'_>, findings: &mut Findings) -> Vec<SocketAddr> {
    let wanted = |address: &&SocketAddr| raw.family.is_none_or(|wanted| family(wanted) == Family::of(address.ip()));
    let common = |address: &&SocketAddr| sources.contains(&Family::of(address.ip()));
    let chosen: Vec<SocketAddr> = to.addresses.iter().filter(common).filter(wanted).copied().collect();
    if chosen.is_empty() {
        let of = |families: &mut dyn Iterator<Item = Family>| {
            let names: Vec<String> = families.map(|family| family.to_string()).collect();
            if names.is_empty() { "no address".to_owned() } else { names.join(" and ") }
        };
        let destination = of(&mut to.addresses.iter().map(|address| Family::of(address.ip())));
        let mut senders = sources.to_vec();
        senders.dedup();
        let sender = of(&mut senders.into_iter());
        let (message, help) = match raw.family.map(family) {
            Some(wanted) => {
                let lacking: Vec<&str> = [
                    (&raw.from, sources.contains(&wanted)),
                    (&raw.to, to.addresses.iter().any(|address| Family::of(address.ip()) == wanted)),
                ]
                .into_iter()
                .filter_map(|(end, has)| (!has).then_some(end.as_str()))
                .collect();
                let verb = if lacking.len() == 1 { "has" } else { "have" };
                let message = format!("{} {verb} no {wanted} address", listed(&lacking));
                (message, format!("Give both ends an {wanted} address, or omit `family`."))
            }
            None => (
                format!("`{}` has {sender}, `{}` has {destination}", raw.from, raw.to),
                "Give both ends an address of the same family.".to_owned(),
            ),
        };
        findings.wrong(at.first_of(&["family", "to"]), message, help);
    }
    chosen
}

fn protocol(raw: &RawProbe, to: &Ends, at: At<'_>, findings: &mut Findings) -> Option<Protocol> {
    if let Some(text) = &raw.protocol {
        return findings.parsed(at.field("protocol"), text, "protocol", "tcp, udp or sctp");
    }
    let mut offered = to.protocols.clone();
    offered.dedup();
    if offered.len() > 1 {
        let names = offered.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let message = format!("`{}` is ambiguous: {names}", raw.to);
        findings.wrong(at.field("to"), message, "Set `protocol:`, or use the name of the port.");
        return None;
    }
    Some(offered.first().copied().unwrap_or_default())
}

fn flows(raw: &RawProbe, at: At<'_>, findings: &mut Findings) -> Flows {
    let flows = match raw.flows {
        None => Flows::Exactly(1),
        Some(RawFlows::Auto(_)) => Flows::Auto,
        Some(RawFlows::Count(count)) => {
            if !(1..=limits::MAX_FLOWS).contains(&count) {
                let help = format!("Use a number from 1 to {}, or `auto`.", limits::MAX_FLOWS);
                findings.wrong(at.field("flows"), format!("`flows`: {count} is out of range"), help);
            }
            Flows::Exactly(count)
        }
    };
    if raw.source_port == Some(0) {
        findings.wrong(at.field("sourcePort"), "port 0 is out of range", "Ports are numbers from 1 to 65535.");
    }
    if raw.source_port.is_some() && flows != Flows::Exactly(1) {
        let message = "several flows cannot share one source port";
        findings.wrong(at.field("sourcePort").key(), message, "Omit `sourcePort` or `flows`.");
    }
    flows
}

/// Resolves the flags of a segment that opens no connection.
fn tcp_flags(
    raw: &RawProbe,
    protocol: Protocol,
    from: &Vantage,
    scene: &Scene<'_, '_>,
    at: At<'_>,
    findings: &mut Findings,
) -> Option<TcpFlags> {
    let given = raw.tcp_flags.as_ref()?;
    let at = at.field("tcpFlags");
    let flags = given.iter().map(|flag| flag_bit(*flag)).fold(TcpFlags::default(), TcpFlags::with);
    if protocol != Protocol::Tcp {
        let message = format!("`tcpFlags` does not apply to {protocol}");
        findings.wrong(at.key(), message, "Omit it, or set `protocol: tcp`.");
    }
    if node_of(from, scene).is_some() {
        let message = "a process on a node cannot send TCP segments with arbitrary flags";
        findings.wrong(at.key(), message, "Send from a pod without `hostNetwork` or from `host/NAME`, or omit it.");
    }
    let known = TcpFlags::SYN.with(TcpFlags::ACK).with(TcpFlags::FIN).with(TcpFlags::RST);
    if !flags.intersects(known) {
        let message = "a segment without SYN, ACK, FIN or RST belongs to no connection";
        findings.missing(at, message, "Add SYN, ACK, FIN or RST.");
    }
    if raw.flows.is_some() {
        let message = "`tcpFlags` is only valid for single flows";
        findings.wrong(at.key(), message, "Omit `tcpFlags` or `flows`.");
    }
    (flags != TcpFlags::SYN).then_some(flags)
}

fn flag_bit(flag: RawTcpFlag) -> TcpFlags {
    match flag {
        RawTcpFlag::Syn => TcpFlags::SYN,
        RawTcpFlag::Ack => TcpFlags::ACK,
        RawTcpFlag::Fin => TcpFlags::FIN,
        RawTcpFlag::Rst => TcpFlags::RST,
        RawTcpFlag::Psh => TcpFlags::PSH,
        RawTcpFlag::Urg => TcpFlags::URG,
    }
}

/// Checks the sender to a loopback address: only a process on the node, including pods with `hostNetwork`, or a neighbour that sends the
/// packet through the node.
fn check_loopback(from: &Vantage, to: &Ends, scene: &Scene<'_, '_>, at: At<'_>, findings: &mut Findings) {
    if to.loopback && to.via.is_none() && node_of(from, scene).is_none() {
        let error = at.field("to").error("only a process on the node can reach its loopback address");
        let help = "Send from `node/NAME` or `localhost@NODE`, or from `host/NAME` to `ADDRESS:PORT@NODE`.";
        findings.add(error.help(help));
    }
}

/// Checks `@NODE`: only an outside host can send a packet through another node than the routed one.
fn check_handed(from: &Vantage, to: &Ends, at: At<'_>, findings: &mut Findings) {
    if let Some(node) = to.via.as_ref().filter(|_| !matches!(from, Vantage::Host(_))) {
        let message = format!("`@{node}` is only valid for probes from an outside host");
        let help = format!("Omit `@{node}`, or send from `host/NAME`.");
        findings.wrong(at.field("to"), message, help);
    }
}

/// Checks that the sender's node is on.
pub(super) fn check_is_on(from: &Vantage, cluster: &Cluster, at: At<'_>, findings: &mut Findings) {
    let node = match from {
        Vantage::Node(name) | Vantage::Localhost(name) => Some(name),
        Vantage::Pod(name) => cluster.pod(name).map(|pod| &pod.node),
        Vantage::Host(_) => None,
    };
    if let Some(node) = node.filter(|node| cluster.is_off(node)) {
        let message = format!("node {node} is off, so nothing on it can send");
        findings.wrong(
            at.field("from"),
            message,
            format!("Turn it on first: `up: node/{node}`, or send from elsewhere."),
        );
    }
}

/// Checks the source port: a process cannot send from a port with a listener on its node.
fn check_source_port(
    from: &Vantage,
    port: (Protocol, u16),
    scene: &Scene<'_, '_>,
    at: At<'_>,
    findings: &mut Findings,
) {
    let Some(node) = node_of(from, scene) else { return };
    if node.addresses().any(|ip| served_at(scene.now.1, ip).contains_key(&port)) {
        let message = format!("port {} is in use by a listener on node {}", port.1, node.name);
        findings.wrong(at.field("sourcePort"), message, "Use another port, or omit `sourcePort`.");
    }
}

/// Returns whether a kernel creates a sender's packets: that of a node, or of a pod with rules.
fn has_kernel(from: &Vantage, scene: &Scene<'_, '_>) -> bool {
    let has_rules = |pod: &ObjectName| scene.rules.iter().any(|rules| rules.place == RulesPlace::Pod(pod.clone()));
    node_of(from, scene).is_some() || matches!(from, Vantage::Pod(pod) if has_rules(pod))
}

/// Returns the node of a sender that is a process on a node.
pub(super) fn node_of<'s>(from: &Vantage, scene: &'s Scene<'_, '_>) -> Option<&'s Node> {
    let cluster = scene.now.1;
    match from {
        Vantage::Node(name) | Vantage::Localhost(name) => cluster.node(name),
        Vantage::Pod(name) => cluster.pod(name).filter(|pod| pod.host_network).and_then(|pod| cluster.node(&pod.node)),
        Vantage::Host(_) => None,
    }
}
