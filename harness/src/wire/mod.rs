//! Frames: what is put on the wire and what is read from it.
//!
//! A [`Packet`] is a plain value. [`Packet::decode`] and [`Frame::decode`] read one from bytes, [`Packet::encode`] and
//! [`Frame::encode`] write one with right checksums, and its [`Display`](std::fmt::Display) is in tcpdump's manner:
//!
//! ```
//! use svclab::wire::{Flow, Packet, Tag, answer, probe};
//!
//! let flow = Flow::tcp("10.244.1.3:37328".parse()?, "10.96.34.82:80".parse()?);
//! let syn = probe(&flow, Tag::new(7));
//! assert_eq!(syn.to_string(), "10.244.1.3:37328 > 10.96.34.82:80 tcp [S]");
//! assert_eq!(Packet::decode(&syn.encode()?)?, syn);
//!
//! let syn_ack = answer(&syn).ok_or("a SYN is answered")?;
//! assert_eq!(syn_ack.to_string(), "10.96.34.82:80 > 10.244.1.3:37328 tcp [S.]");
//! assert_eq!(syn_ack.tag(), syn.tag());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where millions of flows are sent, a [`Template`] is patched instead of encoded, and [`peek()`] reads what counting
//! needs without a full decode. Both work without allocation.
//!
//! Bytes from outside never panic: whatever cannot be read is a [`DecodeError`], or a packet that says how far it goes.

mod answer;
#[cfg(test)]
mod checksum;
mod content;
mod decode;
mod describe;
mod encode;
mod flow;
mod packet;
mod peek;
mod probe;
mod rejection;
mod sctp;
mod tag;
mod template;

#[cfg(test)]
mod tests;

pub use answer::answer;
pub use content::Content;
pub(crate) use content::{is_answer, is_request};
pub use decode::DecodeError;
pub(crate) use decode::VXLAN_PORT;
pub use encode::EncodeError;
pub use flow::Flow;
pub use packet::{
    Chunk, Echo, Frame, Icmp, IcmpError, Init, Mac, Packet, Sctp, Tcp, TcpFlags, TcpOptions, Transport, Udp, Vxlan,
};
pub use peek::{FlowKey, peek, peek_ip};
pub use probe::{probe, segment};
pub use rejection::{RejectKind, Rejection, rejection, rejection_of_segment};
pub use tag::Tag;
pub use template::Template;
