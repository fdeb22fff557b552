//! Packets as values.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Protocol;

use super::content::{Content, read_payload};
use super::{Flow, Tag};

/// An Ethernet address, shown as `02:00:00:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A packet with its Ethernet addresses on one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The sender's address.
    pub source: Mac,
    /// The receiver's address.
    pub destination: Mac,
    /// Its content.
    pub packet: Packet,
}

/// An IPv4 or IPv6 packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the source's family.
    pub destination: IpAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Whether routers may fragment it: the DF flag of IPv4 is off. Routers never fragment IPv6 packets.
    pub may_fragment: bool,
    /// Its content.
    pub transport: Transport,
}

/// The content of an IP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A TCP segment.
    Tcp(Tcp),
    /// A UDP datagram.
    Udp(Udp),
    /// An SCTP packet.
    Sctp(Sctp),
    /// An ICMP or ICMPv6 message, by the family of the addresses.
    Icmp(Icmp),
    /// A UDP datagram to a VXLAN port that contains a frame.
    Vxlan(Vxlan),
    /// The beginning of a TCP, UDP or SCTP header, truncated after the ports, as an ICMP error may quote it.
    Truncated {
        /// The protocol.
        protocol: Protocol,
        /// The source port.
        source_port: u16,
        /// The destination port.
        destination_port: u16,
    },
    /// A fragment of a larger packet.
    Fragment(Fragment),
    /// Anything else.
    Other {
        /// The number of the protocol.
        protocol: u8,
    },
}

/// A part of a larger packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The number of the protocol.
    pub protocol: u8,
    /// The identification, which all fragments of a packet have in common.
    pub identification: u32,
    /// The offset of the fragment in the packet's content, in bytes.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// The fragment's part of the packet's content.
    pub content: Vec<u8>,
    /// The packet's content as far as the first fragment shows it; `None` for the others.
    pub first: Option<Box<Transport>>,
}

/// A TCP segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tcp {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgment number; meaningful with [`TcpFlags::ACK`].
    pub acknowledgment: u32,
    /// The flags.
    pub flags: TcpFlags,
    /// The window, unscaled.
    pub window: u16,
    /// The options that svclab reads and writes.
    pub options: TcpOptions,
    /// The data.
    pub payload: Vec<u8>,
}

/// The flags of a TCP segment, displayed like tcpdump does: `S.` is SYN and ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has sent all its data.
    pub(crate) const FIN: Self = Self(0x01);
    /// A connection is opened.
    pub(crate) const SYN: Self = Self(0x02);
    /// The connection is rejected or aborted.
    pub(crate) const RST: Self = Self(0x04);
    /// PSH: data should be delivered at once.
    pub(crate) const PSH: Self = Self(0x08);
    /// The acknowledgment number counts.
    pub(crate) const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub(crate) const URG: Self = Self(0x20);
    /// The flags of explicit congestion notification (RFC 3168), which any segment may have: ECE and CWR.
    const ECN: Self = Self(0xc0);

    /// Whether all of these are set.
    pub(crate) const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of these is set.
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether exactly these are set, ignoring those of congestion notification.
    pub(crate) const fn are(self, flags: Self) -> bool {
        self.0 & !Self::ECN.0 == flags.0
    }

    /// The union of both.
    pub(crate) const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

/// The options of a TCP segment that svclab reads and writes; others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TcpOptions {
    /// Maximum segment size, in bytes.
    pub maximum_segment_size: Option<u16>,
    /// Selective acknowledgments are permitted.
    pub selective_acknowledgments: bool,
    /// Timestamp value and echo.
    pub timestamps: Option<(u32, u32)>,
}

/// A UDP datagram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Udp {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The data.
    pub payload: Vec<u8>,
}

/// An SCTP packet, up to its first chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sctp {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The verification tag.
    pub verification_tag: u32,
    /// The first chunk, if there is one.
    pub chunk: Option<Chunk>,
}

/// An SCTP chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// INIT: the request for an association.
    Init(Init),
    /// INIT ACK: the answer to it, encoded with a state cookie, as the protocol requires.
    InitAck(Init),
    /// The association is rejected or aborted.
    Abort,
    /// A chunk of another type, or a truncated one.
    Other(u8),
}

/// The body of INIT and INIT ACK (RFC 9260, section 3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    /// The verification tag that the other side has to use; not 0.
    pub initiate_tag: u32,
    /// The window, in bytes.
    pub receiver_window: u32,
    /// Streams outbound; not 0.
    pub outbound_streams: u16,
    /// Streams inbound; not 0.
    pub inbound_streams: u16,
    /// The first transmission sequence number.
    pub initial_tsn: u32,
}

/// An ICMP or ICMPv6 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Icmp {
    /// An echo request.
    EchoRequest(Echo),
    /// An echo reply.
    EchoReply(Echo),
    /// An error about another packet.
    Error(IcmpError),
    /// A message of another type.
    Other {
        /// The type.
        icmp_type: u8,
        /// The code.
        code: u8,
    },
}

/// An echo request or reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Echo {
    /// The identifier; conntrack treats it as a port.
    pub identifier: u16,
    /// The sequence number.
    pub sequence: u16,
    /// The data.
    pub payload: Vec<u8>,
}

/// An ICMP or ICMPv6 error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// The type: 3 in ICMP and 1 in ICMPv6 mean destination unreachable.
    pub icmp_type: u8,
    /// The code.
    pub code: u8,
    /// The MTU that it reports, if it is "fragmentation needed" or "packet too big" and has one.
    pub mtu: Option<u16>,
    /// The packet that it is about, as far as it is quoted and can be parsed.
    pub quoted: Option<Box<Packet>>,
}

/// A frame inside VXLAN (RFC 7348).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vxlan {
    /// The outer source port.
    pub source_port: u16,
    /// The outer destination port: 8472 or 4789.
    pub destination_port: u16,
    /// The 24-bit network identifier.
    pub vni: u32,
    /// The frame; `None` if it is not IP, or nested too deep.
    pub inner: Option<Box<Frame>>,
}

impl Frame {
    /// The number of bytes in front of the packet.
    pub(crate) const HEADER: usize = 14;
}

impl Packet {
    /// Protocol, addresses and ports; `None` for packets without ports and for VXLAN.
    pub(crate) fn flow(&self) -> Option<Flow> {
        let (protocol, source, destination) = match &self.transport {
            Transport::Tcp(tcp) => (Protocol::Tcp, tcp.source_port, tcp.destination_port),
            Transport::Udp(udp) => (Protocol::Udp, udp.source_port, udp.destination_port),
            Transport::Sctp(sctp) => (Protocol::Sctp, sctp.source_port, sctp.destination_port),
            Transport::Truncated { protocol, source_port, destination_port } => {
                (*protocol, *source_port, *destination_port)
            }
            Transport::Icmp(_) | Transport::Vxlan(_) | Transport::Fragment(_) | Transport::Other { .. } => {
                return None;
            }
        };
        Some(Flow {
            protocol,
            source: SocketAddr::new(self.source, source),
            destination: SocketAddr::new(self.destination, destination),
        })
    }

    /// Whether it is a probe or an answer, with its tag. For a SYN sent by a kernel, only the tag's key is meaningful: see [`Self::key`].
    pub(crate) fn content(&self) -> Content {
        let content = match &self.transport {
            Transport::Tcp(tcp) => tcp.options.timestamps.and_then(|(value, echo)| {
                if self.opens() {
                    Tag::from_words(tcp.sequence, value).map(Content::Request)
                } else if self.accepts() {
                    Tag::from_words(tcp.acknowledgment.wrapping_sub(1), echo).map(Content::Answer)
                } else {
                    None
                }
            }),
            Transport::Udp(udp) => read_payload(&udp.payload),
            Transport::Sctp(Sctp { chunk: Some(Chunk::Init(init)), .. }) => {
                Tag::from_words(init.initiate_tag, init.initial_tsn).map(Content::Request)
            }
            Transport::Sctp(Sctp { chunk: Some(Chunk::InitAck(init)), verification_tag, .. }) => {
                Tag::from_words(*verification_tag, init.initial_tsn).map(Content::Answer)
            }
            Transport::Fragment(_) => self.begun().map(|whole| whole.content()),
            _ => None,
        };
        content.unwrap_or(Content::Other)
    }

    /// The packet as far as its first fragment shows it; `None` for other fragments and for unfragmented packets.
    pub(crate) fn begun(&self) -> Option<Self> {
        let Transport::Fragment(Fragment { first: Some(first), .. }) = &self.transport else { return None };
        Some(Self { transport: Transport::clone(first), ..self.clone() })
    }

    /// The tag of a probe or of its answer; `None` for everything else, including rejections.
    pub(crate) fn tag(&self) -> Option<Tag> {
        match self.content() {
            Content::Request(tag) | Content::Answer(tag) => Some(tag),
            Content::Other => None,
        }
    }

    /// The key of the tag (see [`Tag`]) that a probe and everything that answers it carries, a rejection and a kernel's SYN with this
    /// sequence number included. An ICMP error has the key of the packet that it quotes, a tunnel packet that of its inner packet.
    pub(crate) fn key(&self) -> Option<u32> {
        let key = match &self.transport {
            Transport::Tcp(tcp) if tcp.flags.contains(TcpFlags::ACK) => tcp.acknowledgment.wrapping_sub(1),
            // It answers a segment with ACK, and has its acknowledgment number as its sequence number (RFC 9293, section 3.10.7.1).
            Transport::Tcp(tcp) if tcp.flags.contains(TcpFlags::RST) => tcp.sequence.wrapping_sub(1),
            Transport::Tcp(tcp) => tcp.sequence,
            Transport::Sctp(Sctp { chunk: Some(Chunk::Init(init)), .. }) => init.initiate_tag,
            Transport::Sctp(sctp) => sctp.verification_tag,
            Transport::Icmp(Icmp::Error(error)) => return error.quoted.as_ref()?.key(),
            Transport::Vxlan(tunnel) => return tunnel.inner.as_ref()?.packet.key(),
            _ => return self.tag().map(Tag::key),
        };
        Tag::from_words(key, 0).map(Tag::key)
    }

    /// Whether it opens a connection: a TCP SYN, an SCTP INIT. A UDP datagram does not show that.
    pub(crate) fn opens(&self) -> bool {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.flags.are(TcpFlags::SYN),
            Transport::Sctp(sctp) => matches!(sctp.chunk, Some(Chunk::Init(_))),
            _ => false,
        }
    }

    /// Whether it accepts a connection: a TCP SYN-ACK, an SCTP INIT ACK.
    pub(crate) fn accepts(&self) -> bool {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.flags.are(TcpFlags::SYN.with(TcpFlags::ACK)),
            Transport::Sctp(sctp) => matches!(sctp.chunk, Some(Chunk::InitAck(_))),
            _ => false,
        }
    }
}
