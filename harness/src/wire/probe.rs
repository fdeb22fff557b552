//! The packets that open a probed flow.

use svclab_rules::cluster::Protocol;

use super::content::REQUEST_MARK;
use super::{Chunk, Flow, Init, Packet, Sctp, Tag, Tcp, TcpFlags, TcpOptions, Transport, Udp};

/// The TTL of every packet that svclab sends: the Linux default.
pub(super) const TTL: u8 = 64;

/// The maximum segment size of every SYN and SYN-ACK: 1460 bytes of data fit an Ethernet frame with IPv4.
pub(super) fn syn_options(value: u32, echo: u32) -> TcpOptions {
    TcpOptions { maximum_segment_size: Some(1460), selective_acknowledgments: true, timestamps: Some((value, echo)) }
}

/// The offset added to the sequence number of a segment with ACK: half of the range that compares as later, so that it is outside of the
/// window of every connection that svclab opens.
const FAR: u32 = 1 << 30;

/// A TCP segment that does not open a connection. It carries the tag's key: with ACK in its acknowledgment number, and then its sequence
/// number is outside of every window; otherwise in its sequence number.
pub(crate) fn segment(flow: &Flow, tag: Tag, flags: TcpFlags) -> Packet {
    let next = tag.key().wrapping_add(1);
    let (sequence, acknowledgment) = if flags.contains(TcpFlags::ACK) {
        (tag.key() ^ FAR, next)
    } else if flags.contains(TcpFlags::RST) {
        (next, 0)
    } else {
        (tag.key(), 0)
    };
    let transport = Transport::Tcp(Tcp {
        source_port: flow.source.port(),
        destination_port: flow.destination.port(),
        sequence,
        acknowledgment,
        flags,
        window: 64_240,
        ..Tcp::default()
    });
    Packet { source: flow.source.ip(), destination: flow.destination.ip(), ttl: TTL, may_fragment: false, transport }
}

/// The packet that opens a flow: a TCP SYN, a UDP datagram, an SCTP INIT. It carries the tag (see [`Tag`]).
pub(crate) fn probe(flow: &Flow, tag: Tag) -> Packet {
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
    Packet { source: flow.source.ip(), destination: flow.destination.ip(), ttl: TTL, may_fragment: false, transport }
}

impl Packet {
    /// Pads a datagram with zeros, so that the IP packet has this size in bytes. Other packets, and larger ones, are returned unchanged.
    pub(crate) fn with_size(mut self, size: u16) -> Self {
        const UDP: usize = 8;
        let ip = if self.source.is_ipv4() { 20 } else { 40 };
        if let Transport::Udp(udp) = &mut self.transport {
            let payload = usize::from(size).saturating_sub(ip + UDP);
            udp.payload.resize(payload.max(udp.payload.len()), 0);
        }
        self
    }
}
