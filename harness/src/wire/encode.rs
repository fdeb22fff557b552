//! Encodes packets with correct lengths and checksums. etherparse writes the layers; SCTP and VXLAN are added here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::err::packet::BuildVecWriteError;
use etherparse::{
    IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpHeader,
    TcpOptionElement, ip_number,
};

use super::{Frame, Icmp, Packet, Tcp, TcpFlags, TcpOptions, Transport, Vxlan, sctp};

/// The reason why a packet cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum EncodeError {
    /// Source and destination are of different families.
    #[error("source {0} and destination {1} are of different address families")]
    MixedFamilies(IpAddr, IpAddr),
    /// The content does not fit the headers' length fields.
    #[error("packet too long: {0}")]
    TooLong(String),
    /// The value is incomplete: a fragment, an unknown protocol, or a nested packet that was not decoded.
    #[error("the packet's content is unknown, so it cannot be encoded")]
    Incomplete,
}

impl Frame {
    /// Encodes the frame.
    ///
    /// # Errors
    ///
    /// As [`Packet::encode`].
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let ip = self.packet.ip_headers()?;
        let mut bytes = Vec::with_capacity(128);
        self.packet.write(PacketBuilder::ethernet2(self.source.0, self.destination.0).ip(ip), &mut bytes)?;
        Ok(bytes)
    }
}

impl Packet {
    /// Encodes the packet without an Ethernet header. Identification and flow label are 0.
    ///
    /// # Errors
    ///
    /// If families are mixed, or the content is unknown or longer than 65,535 bytes minus the headers.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Vec::with_capacity(128);
        self.write(PacketBuilder::ip(self.ip_headers()?), &mut bytes)?;
        Ok(bytes)
    }

    fn ip_headers(&self) -> Result<IpHeaders, EncodeError> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.ipv4_header(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(self.ipv6_header(source, destination)),
            (source, destination) => Err(EncodeError::MixedFamilies(source, destination)),
        }
    }

    fn ipv4_header(&self, source: Ipv4Addr, destination: Ipv4Addr) -> Result<IpHeaders, EncodeError> {
        let mut header = Ipv4Header::new(0, self.ttl, IpNumber(0), source.octets(), destination.octets())
            .map_err(|err| EncodeError::TooLong(err.to_string()))?;
        header.dont_fragment = !self.may_fragment;
        Ok(IpHeaders::Ipv4(header, Default::default()))
    }

    fn ipv6_header(&self, source: Ipv6Addr, destination: Ipv6Addr) -> IpHeaders {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: Ipv6FlowLabel::ZERO,
            payload_length: 0,
            next_header: IpNumber(0),
            hop_limit: self.ttl,
            source: source.octets(),
            destination: destination.octets(),
        };
        IpHeaders::Ipv6(header, Default::default())
    }

    fn write(&self, ip: PacketBuilderStep<IpHeaders>, bytes: &mut Vec<u8>) -> Result<(), EncodeError> {
        let written = match &self.transport {
            Transport::Tcp(tcp) => ip.tcp_header(tcp_header(tcp)?).write_to_vec(bytes, &tcp.payload),
            Transport::Udp(udp) => ip.udp(udp.source_port, udp.destination_port).write_to_vec(bytes, &udp.payload),
            Transport::Sctp(sctp) => ip.write_to_vec(bytes, ip_number::SCTP, &sctp::write(sctp)),
            Transport::Icmp(icmp) => return write_icmp(icmp, self.source.is_ipv4(), ip, bytes),
            Transport::Vxlan(vxlan) => {
                ip.udp(vxlan.source_port, vxlan.destination_port).write_to_vec(bytes, &vxlan_payload(vxlan)?)
            }
            Transport::Truncated { protocol, source_port, destination_port } => {
                let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
                ip.write_to_vec(bytes, IpNumber(protocol.number()), &ports)
            }
            Transport::Fragment(_) | Transport::Other { .. } => return Err(EncodeError::Incomplete),
        };
        written.map_err(too_long)
    }
}

/// The other causes of this error are extension headers, ARP, and ICMPv6 in IPv4, which are never written.
fn too_long(err: BuildVecWriteError) -> EncodeError {
    EncodeError::TooLong(err.to_string())
}

fn tcp_header(tcp: &Tcp) -> Result<TcpHeader, EncodeError> {
    let mut header = TcpHeader::new(tcp.source_port, tcp.destination_port, tcp.sequence, tcp.window);
    header.acknowledgment_number = tcp.acknowledgment;
    let flag = |bit: u8| tcp.flags.contains(TcpFlags(bit));
    (header.fin, header.syn, header.rst, header.psh) = (flag(0x01), flag(0x02), flag(0x04), flag(0x08));
    (header.ack, header.urg, header.ece, header.cwr) = (flag(0x10), flag(0x20), flag(0x40), flag(0x80));
    header.set_options(&option_elements(&tcp.options)).map_err(|err| EncodeError::TooLong(err.to_string()))?;
    Ok(header)
}

/// The options in Linux' order, so that the timestamps have the same offset as in a real SYN.
fn option_elements(options: &TcpOptions) -> Vec<TcpOptionElement> {
    let size = options.maximum_segment_size.map(TcpOptionElement::MaximumSegmentSize);
    let selective = options.selective_acknowledgments.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted);
    let timestamps = options.timestamps.map(|(value, echo)| TcpOptionElement::Timestamp(value, echo));
    [size, selective, timestamps].into_iter().flatten().collect()
}

fn write_icmp(
    icmp: &Icmp,
    ipv4: bool,
    ip: PacketBuilderStep<IpHeaders>,
    bytes: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let word = |echo: &super::Echo| {
        let ([a, b], [c, d]) = (echo.identifier.to_be_bytes(), echo.sequence.to_be_bytes());
        [a, b, c, d]
    };
    let (icmp_type, code, word, payload) = match icmp {
        Icmp::EchoRequest(echo) => (if ipv4 { 8 } else { 128 }, 0, word(echo), echo.payload.clone()),
        Icmp::EchoReply(echo) => (if ipv4 { 0 } else { 129 }, 0, word(echo), echo.payload.clone()),
        Icmp::Error(error) => {
            let quoted = error.quoted.as_ref().ok_or(EncodeError::Incomplete)?;
            (error.icmp_type, error.code, u32::from(error.mtu.unwrap_or(0)).to_be_bytes(), quoted.encode()?)
        }
        Icmp::Other { .. } => return Err(EncodeError::Incomplete),
    };
    let written = if ipv4 {
        ip.icmpv4_raw(icmp_type, code, word).write_to_vec(bytes, &payload)
    } else {
        ip.icmpv6_raw(icmp_type, code, word).write_to_vec(bytes, &payload)
    };
    written.map_err(too_long)
}

fn vxlan_payload(vxlan: &Vxlan) -> Result<Vec<u8>, EncodeError> {
    let inner = vxlan.inner.as_ref().ok_or(EncodeError::Incomplete)?;
    let [_, a, b, c] = vxlan.vni.to_be_bytes();
    let mut payload = vec![0x08, 0, 0, 0, a, b, c, 0];
    payload.extend(inner.encode()?);
    Ok(payload)
}
