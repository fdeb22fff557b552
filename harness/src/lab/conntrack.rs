//! The nodes' conntrack tables.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use svclab_rules::cluster::Protocol;
use svclab_rules::conntrack::{Cleanup, Deletion, Flow};

use super::LabError;
use super::namespaces::Namespace;
use super::netfilter::{Message, Socket, attribute, encode};
use super::programs::{at_once, failed, run};

/// The program that edits conntrack tables.
const PROGRAM: &str = "conntrack";

/// `NFNL_SUBSYS_CTNETLINK` with `IPCTNL_MSG_CT_NEW`, `IPCTNL_MSG_CT_GET`, `IPCTNL_MSG_CT_DELETE`, `IPCTNL_MSG_CT_GET_STATS_CPU`
/// (`linux/netfilter/nfnetlink_conntrack.h`).
const NEW: u16 = 1 << 8;
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const STATISTICS: u16 = 1 << 8 | 4;
/// `CTA_STATS_INSERT_FAILED`, a counter of one CPU.
const INSERT_FAILED: u16 = 9;
/// `AF_UNSPEC`.
const ALL_FAMILIES: u8 = 0;

/// `CTA_TUPLE_ORIG`, `CTA_TUPLE_REPLY`, `CTA_ZONE`, and the flag of nested attributes.
pub(super) const ORIGINAL: u16 = 1;
pub(super) const REPLY: u16 = 2;
const ZONE: u16 = 18;
pub(super) const NESTED: u16 = 1 << 15;
/// Inside a tuple: `CTA_TUPLE_IP`, `CTA_TUPLE_PROTO`.
const ADDRESSES: u16 = 1;
const LAYER_4: u16 = 2;
/// `CTA_IP_V4_SRC` or `CTA_IP_V6_SRC`, then the same for destinations.
const SOURCES: [u16; 2] = [1, 3];
const DESTINATIONS: [u16; 2] = [2, 4];
/// `CTA_PROTO_NUM`, `CTA_PROTO_SRC_PORT`, `CTA_PROTO_DST_PORT`.
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// The conntrack table of a namespace, accessed through a netlink socket. It may be used from any thread.
pub(crate) struct Connections {
    netns: String,
    socket: Socket,
}

impl Connections {
    /// Opens a namespace's table.
    pub(super) fn open(namespace: &Namespace) -> Result<Self, LabError> {
        let netns = namespace.name().to_owned();
        let opened = namespace.run(|| Socket::open(0))?;
        let socket = opened.map_err(LabError::socket(&netns, "opening the conntrack table"))?;
        Ok(Self { netns, socket })
    }

    /// Flushes the table for all families. Flushing an empty table costs nothing, any other a scan of the whole machine's table, which
    /// takes some milliseconds.
    ///
    /// # Errors
    ///
    /// If the kernel rejects it.
    pub(crate) fn flush(&self) -> Result<(), LabError> {
        // Without an attribute that selects connections, all of them are deleted.
        let flushed = self.socket.request(DELETE, ALL_FAMILIES, 0, &[]);
        flushed.map_err(LabError::socket(&self.netns, "flushing the conntrack table"))
    }

    /// Adds an entry of a family.
    ///
    /// # Errors
    ///
    /// If the kernel rejects it, for example because there is an entry with the same addresses and ports.
    pub(super) fn create(&self, family: u8, attributes: &[u8]) -> Result<(), LabError> {
        let created = self.socket.create(NEW, family, attributes);
        created.map_err(LabError::socket(&self.netns, "adding to the conntrack table"))
    }

    /// The entries of TCP, UDP and SCTP.
    ///
    /// # Errors
    ///
    /// If the kernel fails to list them.
    fn entries(&self) -> Result<Vec<Entry>, LabError> {
        let listed = self.socket.list(GET, ALL_FAMILIES, &[]);
        let listed = listed.map_err(LabError::socket(&self.netns, "listing the conntrack table"))?;
        Ok(listed.into_iter().filter_map(Entry::read).collect())
    }

    /// Deletes an entry. It is not an error if it is gone already.
    fn delete(&self, entry: &Entry) -> Result<(), LabError> {
        match self.socket.request(DELETE, entry.message.family, 0, &entry.key()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            deleted => deleted.map_err(LabError::socket(&self.netns, "deleting from the conntrack table")),
        }
    }

    /// Returns the number of packets that the namespace has dropped because another CPU had already inserted a connection with the same
    /// addresses and ports (`insert_failed` of `conntrack -S`).
    ///
    /// # Errors
    ///
    /// If the kernel does not report it.
    pub(crate) fn collisions(&self) -> Result<u64, LabError> {
        let statistics = self.socket.list(STATISTICS, ALL_FAMILIES, &[]);
        let statistics = statistics.map_err(LabError::socket(&self.netns, "reading conntrack's statistics"))?;
        Ok(statistics.iter().filter_map(|cpu| cpu.word(INSERT_FAILED)).map(u64::from).sum())
    }
}

/// An entry as the kernel lists it.
struct Entry {
    flow: Flow,
    message: Message,
}

impl Entry {
    fn read(message: Message) -> Option<Self> {
        let tuple = |kind, addresses, port| socket_address(message.attribute(kind)?, addresses, port);
        let layer_4 = attribute(message.attribute(ORIGINAL)?, LAYER_4)?;
        let flow = Flow {
            protocol: Protocol::from_number(*attribute(layer_4, NUMBER)?.first()?)?,
            original_destination: tuple(ORIGINAL, DESTINATIONS, DESTINATION_PORT)?,
            reply_source: tuple(REPLY, SOURCES, SOURCE_PORT)?,
        };
        Some(Self { flow, message })
    }

    /// The attributes that identify this entry.
    fn key(&self) -> Vec<u8> {
        let part = |kind, flags| Some(encode(kind | flags, self.message.attribute(kind)?));
        [part(ORIGINAL, NESTED), part(ZONE, 0)].into_iter().flatten().flatten().collect()
    }
}

/// A tuple as an attribute.
pub(super) fn tuple(kind: u16, protocol: Protocol, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let address = |kinds: [u16; 2], ip: IpAddr| match ip {
        IpAddr::V4(ip) => encode(kinds[0], &ip.octets()),
        IpAddr::V6(ip) => encode(kinds[1], &ip.octets()),
    };
    let addresses = [address(SOURCES, from.ip()), address(DESTINATIONS, to.ip())].concat();
    let layer_4 = [
        encode(NUMBER, &[protocol.number()]),
        encode(SOURCE_PORT, &from.port().to_be_bytes()),
        encode(DESTINATION_PORT, &to.port().to_be_bytes()),
    ];
    let parts = [encode(ADDRESSES | NESTED, &addresses), encode(LAYER_4 | NESTED, &layer_4.concat())];
    encode(kind | NESTED, &parts.concat())
}

/// One end of a tuple, from the attribute numbers of its address in either family and of its port.
fn socket_address(tuple: &[u8], addresses: [u16; 2], port: u16) -> Option<SocketAddr> {
    let (network, layer_4) = (attribute(tuple, ADDRESSES)?, attribute(tuple, LAYER_4)?);
    let [v4, v6] = addresses.map(|kind| attribute(network, kind));
    let address = match v4 {
        Some(bytes) => IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        None => IpAddr::V6(Ipv6Addr::from(*v6?.first_chunk::<16>()?)),
    };
    Some(SocketAddr::new(address, u16::from_be_bytes(*attribute(layer_4, port)?.first_chunk()?)))
}

#[cfg(test)]
/// The flows of a namespace's connection table.
pub(super) fn flows(namespace: &Namespace) -> Result<Vec<Flow>, LabError> {
    Ok(Connections::open(namespace)?.entries()?.iter().map(|entry| entry.flow).collect())
}

/// Deletes the entries of a namespace's connection table that kube-proxy deletes.
pub(super) fn clean_up(namespace: &Namespace, cleanup: &Cleanup) -> Result<(), LabError> {
    match cleanup {
        Cleanup::Calls(calls) => call_each(namespace, &calls.iter().map(Deletion::arguments).collect::<Vec<_>>()),
        comparison if comparison.is_empty() => Ok(()),
        Cleanup::Comparison(serving) => {
            let connections = Connections::open(namespace)?;
            let entries = connections.entries()?;
            entries.iter().filter(|entry| serving.is_stale(&entry.flow)).try_for_each(|entry| connections.delete(entry))
        }
    }
}

/// Runs conntrack in a namespace once for each list of arguments.
pub(super) fn call_each(namespace: &Namespace, calls: &[Vec<String>]) -> Result<(), LabError> {
    at_once(calls.iter().map(|arguments| || call(namespace, arguments)))
}

/// Runs conntrack. Finding nothing to delete counts as success, although conntrack then exits with 1.
fn call<S: AsRef<std::ffi::OsStr>>(namespace: &Namespace, arguments: &[S]) -> Result<(), LabError> {
    let output = run(namespace, PROGRAM, arguments, "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || found_nothing(&said) {
        return Ok(());
    }
    Err(failed(namespace, PROGRAM, &said.lines().last().unwrap_or("no message")))
}

/// Whether a message of conntrack says that no connection was found: `conntrack v1.4.7 (conntrack-tools): 0 flow entries have been
/// deleted.`
fn found_nothing(message: &str) -> bool {
    let before = message.split_once(" flow entries").map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()) == Some("0")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::found_nothing;

    #[rstest]
    #[case::none("conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n", true)]
    #[case::ten("conntrack v1.4.7 (conntrack-tools): 10 flow entries have been deleted.\n", false)]
    #[case::other("conntrack v1.4.7 (conntrack-tools): Operation failed: invalid parameters\n", false)]
    fn nothing_to_delete_is_no_failure(#[case] message: &str, #[case] expected: bool) {
        assert_eq!(found_nothing(message), expected);
    }
}
