//! Initial conntrack entries.

use std::collections::HashMap;
use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;

use super::findings::Findings;
use super::lookup::Scene;
use crate::scenario::model::ConntrackEntry;
use crate::scenario::schema::RawConnection;
use crate::yaml::At;

/// The format of an address with a port.
const FORM: &str = "an address with a port, for example 10.96.0.10:53 or [fd00::a]:53";

/// Resolves the conntrack entries of all nodes.
pub(super) fn connections(
    raw: &[RawConnection],
    at: At<'_>,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Vec<ConntrackEntry> {
    // No packet can belong to two entries of a table.
    let mut tuples = HashMap::new();
    let mut all = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let at = at.item(index);
        let Some(entry) = connection(raw, at, scene, findings) else { continue };
        let ConntrackEntry { node, protocol, from, to, reply_from, reply_to, .. } = &entry;
        let keys = [(*from, *to), (*reply_from, *reply_to)].map(|ends| (node.clone(), *protocol, ends));
        let known: Option<usize> = keys.iter().find_map(|key| tuples.get(key).copied());
        if let Some(known) = known {
            let message = format!("this entry has the same addresses and ports as entry {}", known + 1);
            findings.wrong(at, message, "Remove one of them: a packet belongs to one connection.");
            continue;
        }
        tuples.extend(keys.map(|key| (key, index)));
        all.push(entry);
    }
    all
}

fn connection(
    raw: &RawConnection,
    at: At<'_>,
    scene: &Scene<'_, '_>,
    findings: &mut Findings,
) -> Option<ConntrackEntry> {
    let node = scene.node(&raw.node, at.field("node"), findings).map(|node| node.name.clone());
    let protocol = match &raw.protocol {
        Some(text) => findings.parsed(at.field("protocol"), text, "protocol", "tcp, udp or sctp"),
        None => Some(Protocol::Tcp),
    };
    let mut end = |field: &str, text: &str| -> Option<SocketAddr> {
        let end: SocketAddr = findings.parsed(at.field(field), text, "address and port", FORM)?;
        if end.port() == 0 {
            findings.wrong(at.field(field), "port 0 is not a valid port", "Use a number from 1 to 65535.");
            return None;
        }
        Some(end)
    };
    let (from, to) = (end("from", &raw.from), end("to", &raw.to));
    let mut other = |field: &str, text: Option<&String>, usual| text.map_or(usual, |text| end(field, text));
    let reply_from = other("replyFrom", raw.reply_from.as_ref(), to);
    let reply_to = other("replyTo", raw.reply_to.as_ref(), from);
    let (from, to, reply_from, reply_to) = (from?, to?, reply_from?, reply_to?);
    let fields = [("to", to), ("replyFrom", reply_from), ("replyTo", reply_to)];
    if let Some((field, end)) = fields.into_iter().find(|(_, end)| end.is_ipv4() != from.is_ipv4()) {
        let message = format!("{end} and {from} are of different address families");
        findings.wrong(
            at.first_of(&[field, "from"]),
            message,
            "Use addresses of one family: NAT translates within one.",
        );
        return None;
    }
    let unreplied = raw.unreplied;
    Some(ConntrackEntry { node: node?, protocol: protocol?, from, to, reply_from, reply_to, unreplied })
}
