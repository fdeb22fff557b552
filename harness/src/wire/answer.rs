//! The answers of pods.

use super::content::{ANSWER_MARK, REQUEST_MARK};
use super::probe::{TTL, syn_options};
use super::{Chunk, Icmp, Init, Packet, Sctp, Tcp, TcpFlags, Transport, Udp};

/// Returns the answer of a well-behaved, stateless pod:
///
/// - SYN: SYN-ACK; data or FIN: ACK
/// - a UDP datagram: the same payload, with the mark of an answer instead of a request's, or prepended to it
/// - SCTP INIT: INIT ACK
/// - echo request: echo reply
///
/// Routers may fragment an answer if they might have fragmented the request. Everything else is not answered, in particular no answers, so
/// that two pods never answer each other forever. A packet from or to a multicast, broadcast or unspecified address is not answered either.
pub(crate) fn answer(packet: &Packet) -> Option<Packet> {
    let one = |ip: std::net::IpAddr| !ip.is_multicast() && !ip.is_unspecified() && ip != std::net::Ipv4Addr::BROADCAST;
    if !one(packet.source) || !one(packet.destination) {
        return None;
    }
    let transport = match &packet.transport {
        Transport::Tcp(tcp) => Transport::Tcp(answer_tcp(tcp)?),
        Transport::Udp(udp) => Transport::Udp(answer_udp(udp)?),
        Transport::Sctp(sctp) => Transport::Sctp(answer_sctp(sctp)?),
        Transport::Icmp(Icmp::EchoRequest(echo)) => Transport::Icmp(Icmp::EchoReply(echo.clone())),
        _ => return None,
    };
    Some(Packet {
        source: packet.destination,
        destination: packet.source,
        ttl: TTL,
        may_fragment: packet.may_fragment,
        transport,
    })
}

fn answer_tcp(tcp: &Tcp) -> Option<Tcp> {
    let answer = Tcp {
        source_port: tcp.destination_port,
        destination_port: tcp.source_port,
        window: tcp.window,
        ..Tcp::default()
    };
    if tcp.flags.contains(TcpFlags::RST) {
        return None;
    }
    if tcp.flags.contains(TcpFlags::SYN) {
        let fresh = !tcp.flags.contains(TcpFlags::ACK);
        let timestamps = tcp.options.timestamps.map(|(value, _)| (value, value));
        let options = match timestamps {
            Some((value, echo)) => syn_options(value, echo),
            None => super::TcpOptions { timestamps: None, ..syn_options(0, 0) },
        };
        return fresh.then(|| Tcp {
            sequence: tcp.sequence,
            acknowledgment: tcp.sequence.wrapping_add(1),
            flags: TcpFlags::SYN.with(TcpFlags::ACK),
            options,
            ..answer
        });
    }
    let fin = u32::from(tcp.flags.contains(TcpFlags::FIN));
    let taken = tcp.payload.len() as u32 + fin;
    (taken > 0).then(|| Tcp {
        sequence: tcp.acknowledgment,
        acknowledgment: tcp.sequence.wrapping_add(taken),
        flags: TcpFlags::ACK,
        ..answer
    })
}

fn answer_udp(udp: &Udp) -> Option<Udp> {
    if udp.payload.starts_with(&ANSWER_MARK) {
        return None;
    }
    let rest = udp.payload.strip_prefix(&REQUEST_MARK).unwrap_or(&udp.payload);
    let payload = [&ANSWER_MARK, rest].concat();
    Some(Udp { source_port: udp.destination_port, destination_port: udp.source_port, payload })
}

fn answer_sctp(sctp: &Sctp) -> Option<Sctp> {
    let Some(Chunk::Init(init)) = sctp.chunk else { return None };
    Some(Sctp {
        source_port: sctp.destination_port,
        destination_port: sctp.source_port,
        verification_tag: init.initiate_tag,
        chunk: Some(Chunk::InitAck(Init { ..init })),
    })
}
