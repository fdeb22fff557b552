//! Frames on the wire: encoding and decoding.
//!
//! A [`Packet`] is a plain value. [`Packet::decode`] and [`Frame::decode`] read it from bytes, [`Packet::encode`] and
//! [`Frame::encode`] write it with valid checksums, and its [`Display`](std::fmt::Display) is in the style of tcpdump:
//! `10.244.1.3:37328 > 10.96.34.82:80 tcp [S]`.
//!
//! For millions of flows, a [`Template`] is patched instead of encoded, and [`peek()`] reads what counting needs
//! without fully decoding. Both work without allocation.
//!
//! Decoding never panics: bytes that cannot be parsed give a [`DecodeError`](decode::DecodeError), or a packet that shows how far it could
//! be parsed.

mod answer;
#[cfg(test)]
mod checksum;
mod content;
mod decode;
mod describe;
mod encode;
mod flow;
mod fragment;
mod packet;
mod peek;
mod probe;
mod rejection;
mod sctp;
mod tag;
mod template;

#[cfg(test)]
mod tests;

pub(crate) use answer::answer;
pub(crate) use content::Content;
pub(crate) use content::{is_answer, is_request};

pub(crate) use decode::VXLAN_PORT;
pub(crate) use encode::EncodeError;
pub use flow::Flow;
pub(crate) use fragment::{FragmentKeys, Reassembly, split};
pub use packet::TcpFlags;
pub(crate) use packet::{
    Chunk, Echo, Fragment, Frame, Icmp, IcmpError, Init, Mac, Packet, Sctp, Tcp, TcpOptions, Transport, Udp, Vxlan,
};
pub(crate) use peek::peek;
pub(crate) use probe::{probe, segment};
pub use rejection::{RejectKind, Rejection};
pub(crate) use rejection::{rejection, rejection_of_segment};
pub(crate) use tag::Tag;
pub(crate) use template::Template;
