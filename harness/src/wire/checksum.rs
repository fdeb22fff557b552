//! Verification of checksums.

use std::fmt;

use etherparse::checksum::Sum16BitWords;
use etherparse::{LaxNetSlice, LaxSlicedPacket, UdpSlice, ip_number};

use super::{decode::vxlan_header, sctp};

/// A wrong checksum, displayed as `TCP checksum is 0x1234, should be 0xabcd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChecksumError {
    /// The layer: `IPv4`, `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`.
    pub(super) layer: &'static str,
    /// The checksum in the packet; 32 bits for SCTP, otherwise 16.
    pub(super) found: u32,
    /// The correct checksum.
    pub(super) expected: u32,
}

impl fmt::Display for ChecksumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.layer == "SCTP" { 10 } else { 6 };
        let Self { layer, found, expected } = self;
        write!(f, "{layer} checksum is {found:#0width$x}, should be {expected:#0width$x}")
    }
}

/// All wrong checksums of an Ethernet frame: IPv4 header, transport, and the same inside VXLAN.
///
/// Not checked are fragments, truncated packets, UDP over IPv4 without a checksum, and packets quoted by an ICMP error.
/// A frame captured on the machine whose socket sent it may not have its transport checksum yet, because the kernel
/// leaves it to the network card.
pub(super) fn checksum_errors(frame: &[u8]) -> Vec<ChecksumError> {
    LaxSlicedPacket::from_ethernet(frame).map(|sliced| errors(&sliced)).unwrap_or_default()
}

/// As [`checksum_errors`], for a packet that has no Ethernet header.
pub(super) fn checksum_errors_ip(packet: &[u8]) -> Vec<ChecksumError> {
    LaxSlicedPacket::from_ip(packet).map(|sliced| errors(&sliced)).unwrap_or_default()
}

fn errors(sliced: &LaxSlicedPacket<'_>) -> Vec<ChecksumError> {
    let mut found = Vec::new();
    let (payload, addresses) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let header = ip.header();
            let expected = header.to_header().calc_header_checksum();
            compare("IPv4", header.header_checksum(), expected, &mut found);
            (ip.payload(), Sum16BitWords::new().add_4bytes(header.source()).add_4bytes(header.destination()))
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let header = ip.header();
            (ip.payload(), Sum16BitWords::new().add_16bytes(header.source()).add_16bytes(header.destination()))
        }
        _ => return found,
    };
    let ipv4 = matches!(sliced.net, Some(LaxNetSlice::Ipv4(_)));
    if payload.fragmented || payload.incomplete {
        return found;
    }
    let bytes = payload.payload;
    let pseudo = |protocol: u8, length: usize| {
        addresses.clone().add_2bytes([0, protocol]).add_8bytes((length as u64).to_be_bytes())
    };
    match payload.ip_number {
        ip_number::TCP if bytes.len() >= 20 => check("TCP", pseudo(6, bytes.len()), bytes, 16, &mut found),
        ip_number::UDP => check_udp(ipv4, |length| pseudo(17, length), bytes, &mut found),
        ip_number::ICMP if ipv4 && bytes.len() >= 8 => check("ICMP", Sum16BitWords::new(), bytes, 2, &mut found),
        ip_number::IPV6_ICMP if !ipv4 && bytes.len() >= 8 => {
            check("ICMPv6", pseudo(58, bytes.len()), bytes, 2, &mut found);
        }
        ip_number::SCTP => check_sctp(bytes, &mut found),
        _ => {}
    }
    found
}

fn check_udp(ipv4: bool, pseudo: impl Fn(usize) -> Sum16BitWords, bytes: &[u8], found: &mut Vec<ChecksumError>) {
    let Ok(udp) = UdpSlice::from_slice(bytes) else { return };
    let inner = vxlan_header(udp.payload()).map(|(_, frame)| frame);
    // RFC 768: 0 means none. RFC 6935 allows that in IPv6 for tunnels only.
    if udp.checksum() != 0 || !(ipv4 || inner.is_some()) {
        check("UDP", pseudo(udp.slice().len()), udp.slice(), 6, found);
    }
    found.extend(inner.map(checksum_errors).unwrap_or_default());
}

fn check_sctp(bytes: &[u8], found: &mut Vec<ChecksumError>) {
    if bytes.len() >= sctp::HEADER {
        let (is, expected) = (&bytes[sctp::CHECKSUM], sctp::checksum(bytes));
        if is != expected {
            let is = is.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            found.push(ChecksumError { layer: "SCTP", found: is, expected: u32::from_be_bytes(expected) });
        }
    }
}

/// Compares the Internet checksum at an even offset with that of the rest of the bytes.
fn check(layer: &'static str, sum: Sum16BitWords, bytes: &[u8], at: usize, found: &mut Vec<ChecksumError>) {
    let expected = sum.add_slice(&bytes[..at]).add_slice(&bytes[at + 2..]).ones_complement().to_be();
    // RFC 768: a computed UDP checksum of 0 is sent as all ones.
    let expected = if layer == "UDP" && expected == 0 { 0xffff } else { expected };
    compare(layer, u16::from_be_bytes([bytes[at], bytes[at + 1]]), expected, found);
}

fn compare(layer: &'static str, is: u16, expected: u16, found: &mut Vec<ChecksumError>) {
    if is != expected {
        found.push(ChecksumError { layer, found: is.into(), expected: expected.into() });
    }
}
