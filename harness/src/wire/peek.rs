//! Fast parsing of frames: addresses, ports, protocol and tag, at fixed offsets, without allocation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use svclab_rules::cluster::Protocol;

use super::content::{Content, read_payload};
use super::{Flow, Tag, TcpFlags};

/// The parts of a frame that counting needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowKey {
    /// Protocol, addresses and ports.
    pub flow: Flow,
    /// Whether it is a probe or an answer of svclab.
    pub content: Content,
}

const ETHERNET: usize = 14;

/// Parses an Ethernet frame with TCP, UDP or SCTP in IPv4 or IPv6.
///
/// `None` for everything else, and for rare cases that are left to [`Frame::decode`](super::Frame::decode): VLAN tags,
/// IPv6 extension headers, fragments.
pub(crate) fn peek(frame: &[u8]) -> Option<FlowKey> {
    let (header, packet) = frame.split_first_chunk::<ETHERNET>()?;
    match (&header[12..], packet.first()? >> 4) {
        ([0x08, 0x00], 4) | ([0x86, 0xdd], 6) => peek_ip(packet),
        _ => None,
    }
}

/// As [`peek`], for a packet without an Ethernet header.
#[inline]
pub(crate) fn peek_ip(packet: &[u8]) -> Option<FlowKey> {
    match packet.first()? >> 4 {
        4 => peek_ipv4(packet),
        6 => peek_ipv6(packet),
        _ => None,
    }
}

#[inline]
fn peek_ipv4(packet: &[u8]) -> Option<FlowKey> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header_len < 20 || fragment {
        return None;
    }
    let &[_, _, _, _, _, _, _, _, _, protocol, _, _, a, b, c, d, e, f, g, h] = header;
    let (source, destination) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
    // Short frames are padded: the packet ends at the length in its header.
    let transport = packet.get(header_len..total_len)?;
    peek_transport(protocol, source.into(), destination.into(), transport)
}

#[inline]
fn peek_ipv6(packet: &[u8]) -> Option<FlowKey> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    let source: &[u8; 16] = header[8..].first_chunk()?;
    let destination: &[u8; 16] = header[24..].first_chunk()?;
    let transport = rest.get(..usize::from(u16::from_be_bytes([header[4], header[5]])))?;
    peek_transport(header[6], Ipv6Addr::from(*source).into(), Ipv6Addr::from(*destination).into(), transport)
}

#[inline]
fn peek_transport(number: u8, source: IpAddr, destination: IpAddr, bytes: &[u8]) -> Option<FlowKey> {
    let &[a, b, c, d] = bytes.first_chunk()?;
    let (protocol, content) = match number {
        6 => (Protocol::Tcp, tcp_content(bytes)),
        17 => (Protocol::Udp, bytes.get(8..).and_then(read_payload)),
        132 => (Protocol::Sctp, sctp_content(bytes)),
        _ => return None,
    };
    let flow = Flow {
        protocol,
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    };
    Some(FlowKey { flow, content: content.unwrap_or(Content::Other) })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The options in the order in which svclab and Linux write them: maximum segment size, selective acknowledgments, timestamps.
fn tcp_content(tcp: &[u8]) -> Option<Content> {
    let header: &[u8; 36] = tcp.first_chunk()?;
    let [2, 4, _, _, 4, 2, 8, 10] = header[20..28] else { return None };
    let flags = TcpFlags(header[13]);
    if flags.are(TcpFlags::SYN) {
        Tag::from_words(word(header, 4)?, word(header, 28)?).map(Content::Request)
    } else if flags.are(TcpFlags::SYN.with(TcpFlags::ACK)) {
        Tag::from_words(word(header, 8)?.wrapping_sub(1), word(header, 32)?).map(Content::Answer)
    } else {
        None
    }
}

fn sctp_content(sctp: &[u8]) -> Option<Content> {
    let tsn = word(sctp, 28)?;
    match sctp[12] {
        1 => Some(Content::Request(Tag::from_words(word(sctp, 16)?, tsn)?)),
        2 => Some(Content::Answer(Tag::from_words(word(sctp, 4)?, tsn)?)),
        _ => None,
    }
}
