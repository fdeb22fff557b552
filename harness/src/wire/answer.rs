//! What a pod answers.

use super::content::{ANSWER_MARK, REQUEST_MARK};
use super::probe::{TTL, syn_options};
use super::{Chunk, Icmp, Init, Packet, Sctp, Tcp, TcpFlags, Transport, Udp};

/// What a well-behaved pod answers, with no state of its own:
///
/// - SYN: SYN-ACK; data or FIN: ACK
/// - a UDP datagram: the same payload, with the mark of an answer in place of a request's, or in front of it
/// - SCTP INIT: INIT ACK
/// - echo request: echo reply
///
/// Routers may split an answer where they might have split what it answers. Everything else is not answered; in particular no answer is, so that two pods never answer each other for ever.
/// A packet from or to an address of many (multicast, broadcast) or none is not answered either.
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
