//! Entries that are written to conntrack tables as if earlier packets had made them.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::Protocol;

use super::conntrack::{self, Connections};
use super::namespaces;
use super::netfilter::encode;
use super::{Lab, LabError};
use crate::scenario::ConntrackEntry;

/// Attributes of an entry in addition to its tuples (`linux/netfilter/nfnetlink_conntrack.h`): `CTA_STATUS`, `CTA_PROTOINFO`, `CTA_NAT_SRC`,
/// `CTA_TIMEOUT`, `CTA_NAT_DST`.
const STATUS: u16 = 3;
const PROTOCOL_STATE: u16 = 4;
const SOURCE_NAT: u16 = 6;
const TIMEOUT: u16 = 7;
const DESTINATION_NAT: u16 = 13;
/// Inside a translation: the first and last address of either family, and the attribute of ports with the first and last port.
const NAT_V4: [u16; 2] = [1, 2];
const NAT_V6: [u16; 2] = [4, 5];
const NAT_PORTS: u16 = 3;
const PORTS: [u16; 2] = [1, 2];

/// `IPS_SEEN_REPLY`, `IPS_ASSURED`, `IPS_CONFIRMED`.
const SEEN_REPLY: u32 = 1 << 1;
const ASSURED: u32 = 1 << 2;
const CONFIRMED: u32 = 1 << 3;

/// The timeout of the entries in seconds: longer than any run.
const SECONDS: u32 = 3600;

impl Lab {
    /// Adds connections to conntrack tables, in order.
    ///
    /// # Errors
    ///
    /// If the kernel rejects an entry, or the lab has no such node.
    pub(crate) fn restore(&self, entries: &[ConntrackEntry]) -> Result<(), LabError> {
        for of_node in entries.chunk_by(|one, next| one.node == next.node) {
            let namespace = namespaces::find(&self.namespaces, &format!("node/{}", of_node[0].node))?;
            let table = Connections::open(namespace)?;
            of_node.iter().try_for_each(|entry| table.create(family(entry.from.ip()), &attributes(entry)))?;
        }
        Ok(())
    }
}

/// AF_INET or AF_INET6.
fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 2 } else { 10 }
}

/// The attributes of an entry. The tuples are untranslated: the kernel computes the reply tuple from the translations. Both translations
/// are given, so that no nat rule is evaluated for packets of the connection; one to the same address changes nothing.
fn attributes(entry: &ConntrackEntry) -> Vec<u8> {
    let seen = if entry.unreplied { 0 } else { SEEN_REPLY | ASSURED };
    [
        conntrack::tuple(conntrack::ORIGINAL, entry.protocol, entry.from, entry.to),
        conntrack::tuple(conntrack::REPLY, entry.protocol, entry.to, entry.from),
        encode(STATUS, &(CONFIRMED | seen).to_be_bytes()),
        protocol_state(entry),
        encode(TIMEOUT, &SECONDS.to_be_bytes()),
        translation(DESTINATION_NAT, entry.reply_from),
        translation(SOURCE_NAT, entry.reply_to),
    ]
    .concat()
}

fn translation(kind: u16, to: SocketAddr) -> Vec<u8> {
    let ports: Vec<u8> = PORTS.iter().flat_map(|kind| encode(*kind, &to.port().to_be_bytes())).collect();
    let (kinds, address) = match to.ip() {
        IpAddr::V4(ip) => (NAT_V4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (NAT_V6, ip.octets().to_vec()),
    };
    let addresses = kinds.iter().flat_map(|kind| encode(*kind, &address));
    nested(kind, &addresses.chain(nested(NAT_PORTS, &ports)).collect::<Vec<u8>>())
}

/// The state of TCP or SCTP: established, or opened by one packet. The TCP window is unknown, hence "liberal".
fn protocol_state(entry: &ConntrackEntry) -> Vec<u8> {
    /// `IP_CT_TCP_FLAG_BE_LIBERAL`, as value and mask.
    const LIBERAL: [u8; 2] = [8, 8];
    let state = |state: u8| encode(1, &[state]);
    match entry.protocol {
        Protocol::Tcp => {
            // TCP_CONNTRACK_SYN_SENT, TCP_CONNTRACK_ESTABLISHED
            let own = state(if entry.unreplied { 1 } else { 3 });
            let flags = [4, 5].map(|direction| encode(direction, &LIBERAL)).concat();
            nested(PROTOCOL_STATE, &nested(1, &[own, flags].concat()))
        }
        Protocol::Sctp => {
            // SCTP_CONNTRACK_COOKIE_WAIT, SCTP_CONNTRACK_ESTABLISHED
            let own = state(if entry.unreplied { 2 } else { 4 });
            let tags = [2, 3].map(|direction| encode(direction, &[0; 4])).concat();
            nested(PROTOCOL_STATE, &nested(3, &[own, tags].concat()))
        }
        Protocol::Udp => Vec::new(),
    }
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    encode(kind | conntrack::NESTED, attributes)
}
