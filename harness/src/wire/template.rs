//! Fast encoding of probes: a packet is encoded once, and patched for each flow.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Family, Protocol};

use super::{EncodeError, Flow, Frame, Mac, Packet, Tag, probe, sctp};

/// A template for the probes of all flows from one family's addresses to one destination, without source and tag.
///
/// Its checksums are updated as RFC 1624 describes: the sum over the constant part is kept, and the changing words are
/// added to it. Only SCTP's CRC32c is recomputed, over 32 bytes.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The packet with zeros for source address, source port, tag and checksums.
    bytes: [u8; Self::MAX_LEN],
    len: usize,
    /// The offset of the IP header: 14 after an Ethernet header, otherwise 0.
    ip: usize,
    /// The offset of the transport header.
    transport: usize,
    family: Family,
    protocol: Protocol,
    /// The sum of the constant words of the IPv4 header.
    ip_sum: u32,
    /// The sum of the constant words of TCP or UDP, including the pseudo-header.
    transport_sum: u32,
}

impl Template {
    /// The length of the longest probe: TCP over IPv6 in an Ethernet frame.
    pub(crate) const MAX_LEN: usize = 14 + 40 + 36;

    /// The template of Ethernet frames.
    ///
    /// # Errors
    ///
    /// In practice none: the packet is always short and of one family.
    pub(crate) fn frame(
        source: Mac,
        destination: Mac,
        to: SocketAddr,
        protocol: Protocol,
    ) -> Result<Self, EncodeError> {
        let packet = blank(to, protocol);
        Ok(Self::new(&Frame { source, destination, packet }.encode()?, 14, to, protocol))
    }

    /// The template of packets without an Ethernet header.
    ///
    /// # Errors
    ///
    /// As [`Self::frame`].
    pub(crate) fn packet(to: SocketAddr, protocol: Protocol) -> Result<Self, EncodeError> {
        Ok(Self::new(&blank(to, protocol).encode()?, 0, to, protocol))
    }

    fn new(encoded: &[u8], ip: usize, to: SocketAddr, protocol: Protocol) -> Self {
        let family = Family::of(to.ip());
        let transport = ip + if family == Family::Ipv4 { 20 } else { 40 };
        let mut template = Self {
            bytes: [0; Self::MAX_LEN],
            len: encoded.len(),
            ip,
            transport,
            family,
            protocol,
            ip_sum: 0,
            transport_sum: 0,
        };
        template.bytes[..encoded.len()].copy_from_slice(encoded);
        if family == Family::Ipv4 {
            template.ip_sum = template.take_sum(ip + 10);
        }
        if let Some(at) = checksum_at(protocol) {
            template.transport_sum = template.take_sum(transport + at);
        }
        // The tag of the blank packet leaves its key bit set, which must not be part of the kept sums.
        for at in tag_at(protocol) {
            let key = read_word(&template.bytes, transport + at);
            template.transport_sum += negated(key);
            template.put(transport + at, 0);
        }
        template
    }

    /// Removes a checksum from the packet and returns the sum that it was computed from.
    fn take_sum(&mut self, at: usize) -> u32 {
        let checksum = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        self.bytes[at..at + 2].fill(0);
        u32::from(!checksum)
    }

    fn put(&mut self, at: usize, word: u32) {
        self.bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }

    /// The length of every probe, in bytes; at most [`Self::MAX_LEN`].
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes the probe of one flow to the beginning of a buffer and returns its length.
    ///
    /// `None`, with nothing written, if the buffer is shorter than [`Self::len`] or the source is not of the
    /// destination's family.
    #[inline]
    pub(crate) fn fill(&self, source: SocketAddr, tag: Tag, buffer: &mut [u8]) -> Option<usize> {
        if Family::of(source.ip()) != self.family {
            return None;
        }
        let out = buffer.get_mut(..self.len)?;
        out.copy_from_slice(&self.bytes[..self.len]);
        let address_sum = self.fill_address(source.ip(), out);
        let transport = &mut out[self.transport..];
        transport[..2].copy_from_slice(&source.port().to_be_bytes());
        let words = [tag.key(), tag.rest()];
        for (at, word) in tag_at(self.protocol).into_iter().zip(words) {
            transport[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        if let Some(at) = checksum_at(self.protocol) {
            let port = u32::from(source.port());
            let checksum = fold(self.transport_sum + address_sum + port + halves(words[0]) + halves(words[1]));
            // RFC 768: a UDP checksum of 0 is sent as all ones.
            let checksum = if checksum == 0 && self.protocol == Protocol::Udp { 0xffff } else { checksum };
            transport[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        } else {
            let checksum = sctp::checksum(transport);
            transport[sctp::CHECKSUM].copy_from_slice(&checksum);
        }
        Some(self.len)
    }

    /// Writes the source address, and in IPv4 the header's checksum; returns the sum of the address' words.
    #[inline]
    fn fill_address(&self, source: IpAddr, out: &mut [u8]) -> u32 {
        match source {
            IpAddr::V4(source) => {
                let sum = halves(source.to_bits());
                let header = &mut out[self.ip..];
                header[12..16].copy_from_slice(&source.octets());
                header[10..12].copy_from_slice(&fold(self.ip_sum + sum).to_be_bytes());
                sum
            }
            IpAddr::V6(source) => {
                out[self.ip + 8..self.ip + 24].copy_from_slice(&source.octets());
                source.segments().into_iter().map(u32::from).sum()
            }
        }
    }
}

/// The probe from the unspecified address, with tag 0.
fn blank(to: SocketAddr, protocol: Protocol) -> Packet {
    let nowhere = if to.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let flow = Flow { protocol, source: SocketAddr::new(nowhere, 0), destination: to };
    probe(&flow, Tag::ZERO)
}

/// The offset of the Internet checksum in the transport header; SCTP has none.
const fn checksum_at(protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::Tcp => Some(16),
        Protocol::Udp => Some(6),
        Protocol::Sctp => None,
    }
}

/// The offsets of the tag's key and rest in the transport header.
const fn tag_at(protocol: Protocol) -> [usize; 2] {
    match protocol {
        Protocol::Tcp => [4, 28],
        Protocol::Udp => [16, 20],
        Protocol::Sctp => [16, 28],
    }
}

fn read_word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().copied().map_or(0, u32::from_be_bytes)
}

/// The sum of the two 16-bit halves of a word.
const fn halves(word: u32) -> u32 {
    (word >> 16) + (word & 0xffff)
}

/// The complement that removes a word from a sum.
const fn negated(word: u32) -> u32 {
    halves(!word)
}

/// The Internet checksum of a sum.
const fn fold(sum: u32) -> u16 {
    let sum = halves(halves(sum));
    !(sum as u16)
}
