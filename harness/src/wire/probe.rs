//! The packets that open a probed flow.

use svclab_rules::cluster::Protocol;

use super::{Chunk, Content, Flow, Init, Packet, Sctp, Tag, Tcp, TcpFlags, TcpOptions, Transport, Udp};

/// Time to live of every packet that svclab sends; Linux' default.
pub(super) const TTL: u8 = 64;

/// What a UDP probe's payload begins with; then come the tag's two words.
pub(super) const REQUEST_MARK: [u8; 8] = *b"svclab>>";
/// What an answer's payload begins with. A datagram with it is never answered, so two pods cannot echo each other for
/// ever.
pub(super) const ANSWER_MARK: [u8; 8] = *b"svclab<<";

/// The options of every SYN and SYN-ACK: 1460 bytes of data fit an Ethernet frame with IPv4.
pub(super) fn syn_options(value: u32, echo: u32) -> TcpOptions {
    TcpOptions { maximum_segment_size: Some(1460), selective_acknowledgments: true, timestamps: Some((value, echo)) }
}

/// The packet that opens a flow: a TCP SYN, a UDP datagram, an SCTP INIT. It carries the tag (see [`Tag`]).
pub fn probe(flow: &Flow, tag: Tag) -> Packet {
    let (source_port, destination_port) = (flow.source.port(), flow.destination.port());
    let transport = match flow.protocol {
        Protocol::Tcp => Transport::Tcp(Tcp {
            source_port,
            destination_port,
            sequence: tag.key(),
            flags: TcpFlags::SYN,
            window: 64_240,
            options: syn_options(tag.rest(), 0),
            ..Tcp::default()
        }),
        Protocol::Udp => {
            let payload = [REQUEST_MARK.as_slice(), &tag.key().to_be_bytes(), &tag.rest().to_be_bytes()].concat();
            Transport::Udp(Udp { source_port, destination_port, payload })
        }
        Protocol::Sctp => Transport::Sctp(Sctp {
            source_port,
            destination_port,
            verification_tag: 0,
            chunk: Some(Chunk::Init(Init {
                initiate_tag: tag.key(),
                receiver_window: 106_496,
                outbound_streams: 10,
                inbound_streams: 10,
                initial_tsn: tag.rest(),
            })),
        }),
    };
    Packet { source: flow.source.ip(), destination: flow.destination.ip(), ttl: TTL, transport }
}

/// Whether a UDP payload, of which the first bytes are enough, is a probe's.
pub(crate) fn is_request(payload: &[u8]) -> bool {
    payload.starts_with(&REQUEST_MARK)
}

/// Whether it is an answer's.
pub(crate) fn is_answer(payload: &[u8]) -> bool {
    payload.starts_with(&ANSWER_MARK)
}

/// Reads a UDP payload of svclab's.
pub(super) fn read_payload(payload: &[u8]) -> Option<Content> {
    let (mark, rest) = payload.split_first_chunk::<8>()?;
    let &[a, b, c, d, e, f, g, h] = rest.first_chunk()?;
    let tag = Tag::from_words(u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))?;
    match *mark {
        REQUEST_MARK => Some(Content::Request(tag)),
        ANSWER_MARK => Some(Content::Answer(tag)),
        _ => None,
    }
}
