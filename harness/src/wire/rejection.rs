//! Rejections of flows, parsed from packets.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::describe::{error_words, version};
use super::{Chunk, Flow, Icmp, IcmpError, Packet, TcpFlags, Transport};

/// The kind of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RejectKind {
    /// In any way.
    Any,
    /// By a TCP segment with RST.
    TcpReset,
    /// By an SCTP ABORT.
    SctpAbort,
    /// By ICMP or ICMPv6 port unreachable.
    PortUnreachable,
    /// By another ICMP or ICMPv6 destination unreachable.
    OtherUnreachable,
    /// By ICMP "fragmentation needed" or ICMPv6 "packet too big": sent not by a rule but by a router whose next link has a smaller MTU (RFC
    /// 1191, RFC 8201).
    TooBig {
        /// That MTU, in bytes; 0 if the router does not report it.
        mtu: u16,
    },
    /// By the sender's own kernel, which has no route to the destination.
    Unsent,
}

/// A rejection that the sender of a flow received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Its kind.
    pub kind: RejectKind,
    /// In words: `ICMP port unreachable (type 3, code 3)`.
    pub what: String,
    /// The address that sent it.
    pub by: IpAddr,
}

/// Interprets a packet received by the sender of a segment other than a SYN as a rejection: like [`rejection`], but an ICMP error may quote
/// any segment.
pub(crate) fn rejection_of_segment(packet: &Packet, flow: &Flow) -> Option<Rejection> {
    read(packet, flow, |quoted| quoted.flow() == Some(*flow))
}

/// Interprets a packet received by the sender of a flow as a rejection: a TCP segment with RST, an SCTP ABORT, or an
/// ICMP or ICMPv6 destination unreachable, or ICMPv6's unknown next header, that quotes the flow as it was sent. The
/// rejection of a later segment does not count.
pub(crate) fn rejection(packet: &Packet, flow: &Flow) -> Option<Rejection> {
    read(packet, flow, |quoted| quotes_the_first_of(quoted, flow))
}

fn read(packet: &Packet, flow: &Flow, is_about: impl Fn(&Packet) -> bool) -> Option<Rejection> {
    let by = packet.source;
    let answers = packet.flow() == Some(flow.reversed());
    match &packet.transport {
        Transport::Tcp(tcp) if answers && tcp.flags.contains(TcpFlags::RST) => {
            Some(Rejection { kind: RejectKind::TcpReset, what: format!("TCP [{}]", tcp.flags), by })
        }
        Transport::Sctp(sctp) if answers && sctp.chunk == Some(Chunk::Abort) => {
            Some(Rejection { kind: RejectKind::SctpAbort, what: "SCTP [ABORT]".to_owned(), by })
        }
        Transport::Icmp(Icmp::Error(error)) if is_about(error.quoted.as_deref()?) => {
            let kind = unreachable_kind(error, by.is_ipv4())?;
            Some(Rejection { kind, what: format!("{} {}", version(by), error_words(error, by.is_ipv4())), by })
        }
        _ => None,
    }
}

/// Whether a quoted packet opens a flow, as far as the quotation shows it.
fn quotes_the_first_of(quoted: &Packet, flow: &Flow) -> bool {
    let is_later = matches!(&quoted.transport, Transport::Tcp(tcp) if !tcp.flags.contains(TcpFlags::SYN));
    quoted.flow() == Some(*flow) && !is_later
}

fn unreachable_kind(error: &IcmpError, ipv4: bool) -> Option<RejectKind> {
    match (error.icmp_type, error.code, ipv4) {
        (3, 3, true) | (1, 4, false) => Some(RejectKind::PortUnreachable),
        (3, 4, true) | (2, 0, false) => Some(RejectKind::TooBig { mtu: error.mtu.unwrap_or(0) }),
        (3, _, true) | (1, _, false) => Some(RejectKind::OtherUnreachable),
        // ICMP's "protocol unreachable" is a parameter problem in ICMPv6: an unknown next header.
        (4, 1, false) => Some(RejectKind::OtherUnreachable),
        _ => None,
    }
}
