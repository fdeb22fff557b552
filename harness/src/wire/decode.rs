//! Decodes packets. etherparse splits the layers; SCTP and VXLAN are parsed here.

use std::net::IpAddr;

use etherparse::{
    Icmpv4Header, IpNumber, Ipv4HeaderSlice, Ipv6ExtensionSlice, LaxIpv6Slice, LaxNetSlice, LaxSlicedPacket, LinkSlice,
    TcpOptionElement, TcpSlice, UdpSlice, ip_number,
};
use svclab_rules::cluster::Protocol;

use super::{
    Echo, Fragment, Frame, Icmp, IcmpError, Mac, Packet, Tcp, TcpFlags, TcpOptions, Transport, Udp, Vxlan, sctp,
};

/// The reason why bytes are not a packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DecodeError {
    /// The frame carries something else: ARP, LLDP, ...
    #[error("not an IP packet (EtherType {0:#06x})")]
    NotIp(u16),
    /// The bytes end inside a header, or a header contradicts itself.
    #[error("malformed packet: {0}")]
    Malformed(String),
    /// Packets are nested deeper than any sender does.
    #[error("packets nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

/// The maximum nesting of packets: a frame in VXLAN with an ICMP error that quotes a packet has depth three.
const MAX_DEPTH: u8 = 4;

/// The UDP port of VXLAN in labs: the Linux default, which flannel keeps.
pub(crate) const VXLAN_PORT: u16 = 8472;
/// The UDP port of VXLAN that IANA has assigned.
const VXLAN_PORT_OF_IANA: u16 = 4789;

impl Frame {
    /// Decodes an Ethernet frame; VLAN tags are skipped.
    ///
    /// # Errors
    ///
    /// If the frame has no complete IP header. What follows the header may be truncated or invalid, which the packet's
    /// [`Transport`] shows.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_frame(bytes, 0)
    }
}

impl Packet {
    /// Decodes an IP packet without an Ethernet header.
    ///
    /// # Errors
    ///
    /// As [`Frame::decode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_ip(bytes, 0)
    }
}

fn decode_frame(bytes: &[u8], depth: u8) -> Result<Frame, DecodeError> {
    let sliced = LaxSlicedPacket::from_ethernet(bytes).map_err(|err| DecodeError::Malformed(err.to_string()))?;
    let Some(LinkSlice::Ethernet2(link)) = &sliced.link else {
        return Err(DecodeError::Malformed("no Ethernet header".to_owned()));
    };
    let (source, destination) = (Mac(link.source()), Mac(link.destination()));
    Ok(Frame { source, destination, packet: packet(&sliced, link.ether_type().0, depth)? })
}

fn decode_ip(bytes: &[u8], depth: u8) -> Result<Packet, DecodeError> {
    let sliced = LaxSlicedPacket::from_ip(bytes).map_err(|err| DecodeError::Malformed(err.to_string()))?;
    packet(&sliced, 0, depth)
}

fn packet(sliced: &LaxSlicedPacket<'_>, ether_type: u16, depth: u8) -> Result<Packet, DecodeError> {
    if depth >= MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    let (source, destination, ttl, may_fragment, part, payload): (IpAddr, IpAddr, _, _, _, _) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let (header, payload) = (ip.header(), ip.payload());
            let part = payload.fragmented.then(|| part_of_ipv4(&header));
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.ttl(), !header.dont_fragment(), part, payload)
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let (header, payload) = (ip.header(), ip.payload());
            let part = payload.fragmented.then(|| part_of_ipv6(ip)).flatten();
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.hop_limit(), false, part, payload)
        }
        Some(LaxNetSlice::Arp(_)) => return Err(DecodeError::NotIp(ether_type)),
        None => {
            return Err(match &sliced.stop_err {
                Some((err, _)) => DecodeError::Malformed(err.to_string()),
                None => DecodeError::NotIp(ether_type),
            });
        }
    };
    let (protocol, content) = (payload.ip_number.0, payload.payload);
    let read = || transport(protocol, content, source.is_ipv4(), depth);
    let transport = match part {
        None => read(),
        Some(Part { identification, offset, more }) => Transport::Fragment(Fragment {
            protocol,
            identification,
            offset,
            more,
            content: content.to_vec(),
            first: (offset == 0).then(|| Box::new(read())),
        }),
    };
    Ok(Packet { source, destination, ttl, may_fragment, transport })
}

/// The fields of a fragment header.
struct Part {
    identification: u32,
    offset: usize,
    more: bool,
}

fn part_of_ipv4(header: &Ipv4HeaderSlice<'_>) -> Part {
    Part {
        identification: header.identification().into(),
        offset: usize::from(header.fragments_offset().byte_offset()),
        more: header.more_fragments(),
    }
}

fn part_of_ipv6(ip: &LaxIpv6Slice<'_>) -> Option<Part> {
    let header = ip.extensions().clone().into_iter().find_map(|extension| match extension {
        Ipv6ExtensionSlice::Fragment(header) => Some(header),
        _ => None,
    })?;
    Some(Part {
        identification: header.identification(),
        offset: usize::from(header.fragment_offset().byte_offset()),
        more: header.more_fragments(),
    })
}

/// Decodes the content of an IP packet, or the beginning of it, by its protocol number.
pub(super) fn transport_of(protocol: u8, bytes: &[u8], ipv4: bool) -> Transport {
    transport(protocol, bytes, ipv4, 0)
}

fn transport(number: u8, bytes: &[u8], ipv4: bool, depth: u8) -> Transport {
    let whole = match IpNumber(number) {
        ip_number::TCP => tcp(bytes).map(Transport::Tcp),
        ip_number::UDP => udp(bytes, depth),
        ip_number::SCTP => sctp::read(bytes).map(Transport::Sctp),
        ip_number::ICMP if ipv4 => icmp(bytes, true, depth).map(Transport::Icmp),
        ip_number::IPV6_ICMP if !ipv4 => icmp(bytes, false, depth).map(Transport::Icmp),
        _ => None,
    };
    whole.or_else(|| ports_alone(number, bytes)).unwrap_or(Transport::Other { protocol: number })
}

fn ports_alone(number: u8, bytes: &[u8]) -> Option<Transport> {
    let protocol = Protocol::from_number(number)?;
    let &[a, b, c, d] = bytes.first_chunk()?;
    let (source_port, destination_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(Transport::Truncated { protocol, source_port, destination_port })
}

fn tcp(bytes: &[u8]) -> Option<Tcp> {
    let tcp = TcpSlice::from_slice(bytes).ok()?;
    let mut options = TcpOptions::default();
    // Options after a malformed one cannot be found.
    for option in tcp.options_iterator().map_while(Result::ok) {
        match option {
            TcpOptionElement::MaximumSegmentSize(size) => options.maximum_segment_size = Some(size),
            TcpOptionElement::SelectiveAcknowledgementPermitted => options.selective_acknowledgments = true,
            TcpOptionElement::Timestamp(value, echo) => options.timestamps = Some((value, echo)),
            _ => {}
        }
    }
    Some(Tcp {
        source_port: tcp.source_port(),
        destination_port: tcp.destination_port(),
        sequence: tcp.sequence_number(),
        acknowledgment: tcp.acknowledgment_number(),
        flags: TcpFlags(tcp.header_slice()[13]),
        window: tcp.window_size(),
        options,
        payload: tcp.payload().to_vec(),
    })
}

fn udp(bytes: &[u8], depth: u8) -> Option<Transport> {
    let udp = UdpSlice::from_slice_lax(bytes).ok()?;
    let (source_port, destination_port) = (udp.source_port(), udp.destination_port());
    if [VXLAN_PORT, VXLAN_PORT_OF_IANA].contains(&destination_port)
        && let Some((vni, frame)) = vxlan_header(udp.payload())
    {
        let inner = decode_frame(frame, depth + 1).ok().map(Box::new);
        return Some(Transport::Vxlan(Vxlan { source_port, destination_port, vni, inner }));
    }
    Some(Transport::Udp(Udp { source_port, destination_port, payload: udp.payload().to_vec() }))
}

/// Splits a VXLAN payload into network identifier and frame; `None` if it is not VXLAN (RFC 7348, section 5: flags with
/// the I bit, reserved bytes zero).
pub(super) fn vxlan_header(payload: &[u8]) -> Option<(u32, &[u8])> {
    let (&[flags, 0, 0, 0, a, b, c, 0], frame) = payload.split_first_chunk()? else { return None };
    (flags == 0x08 && frame.len() >= etherparse::Ethernet2Header::LEN)
        .then(|| (u32::from_be_bytes([0, a, b, c]), frame))
}

fn icmp(bytes: &[u8], ipv4: bool, depth: u8) -> Option<Icmp> {
    // The first eight bytes have the same format in both versions.
    let (header, payload) = bytes.split_first_chunk::<{ Icmpv4Header::MIN_LEN }>()?;
    let &[icmp_type, code, _, _, a, b, c, d] = header;
    let echo = || Echo {
        identifier: u16::from_be_bytes([a, b]),
        sequence: u16::from_be_bytes([c, d]),
        payload: payload.to_vec(),
    };
    Some(match (icmp_type, code) {
        (8, 0) if ipv4 => Icmp::EchoRequest(echo()),
        (0, 0) if ipv4 => Icmp::EchoReply(echo()),
        (128, 0) if !ipv4 => Icmp::EchoRequest(echo()),
        (129, 0) if !ipv4 => Icmp::EchoReply(echo()),
        _ if is_error(icmp_type, ipv4) => {
            let mtu = match (icmp_type, code, ipv4) {
                (3, 4, true) => u32::from(u16::from_be_bytes([c, d])),
                (2, _, false) => u32::from_be_bytes([a, b, c, d]),
                _ => 0,
            };
            let mtu = Some(u16::try_from(mtu).unwrap_or(u16::MAX)).filter(|mtu| *mtu > 0);
            let quoted = decode_ip(payload, depth + 1).ok().map(Box::new);
            Icmp::Error(IcmpError { icmp_type, code, mtu, quoted })
        }
        _ => Icmp::Other { icmp_type, code },
    })
}

/// Whether messages of a type quote a packet: RFC 792, and RFC 4443 (types below 128).
fn is_error(icmp_type: u8, ipv4: bool) -> bool {
    if ipv4 { matches!(icmp_type, 3 | 4 | 5 | 11 | 12) } else { icmp_type < 128 }
}
