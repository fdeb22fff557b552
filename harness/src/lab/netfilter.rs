//! Sockets and messages of netfilter's netlink family (`linux/netfilter/nfnetlink.h`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};

/// The requested size of the receive buffer in bytes.
const ROOM: usize = 4 << 20;
/// `nlmsghdr` and `nfgenmsg`.
const HEADERS: usize = 16 + 4;

/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
/// NLM_F_CREATE, NLM_F_EXCL.
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
/// NFNL_SUBSYS_NFTABLES.
const NFTABLES: u8 = 10;
/// NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// NLMSG_ERROR, NLMSG_DONE.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A netlink socket of the namespace that it was opened in.
pub(crate) struct Socket(OwnedFd);

/// A message: its type with the subsystem in the upper byte, and its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) family: u8,
    /// The error number that an error message has in place of `nfgenmsg`.
    error: i32,
    attributes: Vec<u8>,
}

impl Socket {
    /// Opens a socket that joins the multicast groups whose bits are set.
    pub(crate) fn open(groups: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
        // In a user namespace rmem_max applies.
        if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &ROOM)?;
        }
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self(socket))
    }

    /// Returns all messages received so far. The kernel queues a message before the operation that it reports returns.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` when the receive buffer overflowed.
    pub(crate) fn messages(&self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => split(&buffer[..length], &mut messages),
                Err(Errno::EAGAIN) => return Ok(messages),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a request and waits for the acknowledgement.
    pub(crate) fn request(&self, kind: u16, family: u8, resource: u16, attributes: &[u8]) -> io::Result<()> {
        self.send(kind, REQUEST | ACKNOWLEDGE, family, resource, attributes)?;
        self.messages()?.iter().try_for_each(Message::consent)
    }

    /// Sends a request that creates something new and waits for the acknowledgement.
    pub(crate) fn create(&self, kind: u16, family: u8, attributes: &[u8]) -> io::Result<()> {
        self.send(kind, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, family, 0, attributes)?;
        self.messages()?.iter().try_for_each(Message::consent)
    }

    /// Requests a dump.
    pub(crate) fn list(&self, kind: u16, family: u8, attributes: &[u8]) -> io::Result<Vec<Message>> {
        self.send(kind, REQUEST | DUMP, family, 0, attributes)?;
        let mut listed = Vec::new();
        loop {
            // The kernel continues its dump whenever part of it is read.
            let messages = self.messages()?;
            messages.iter().try_for_each(Message::consent)?;
            let is_done = messages.is_empty() || messages.iter().any(|message| message.kind == DONE);
            listed.extend(messages.into_iter().filter(|message| message.kind != DONE));
            if is_done {
                return Ok(listed);
            }
        }
    }

    /// Commits a batch of nftables requests as one transaction.
    pub(crate) fn commit(&self, batch: &Batch) -> io::Result<()> {
        let edge = |kind| message(kind, REQUEST, 0, NFTABLES.into(), &[]);
        let bytes = [edge(BATCH_BEGIN), batch.0.clone(), edge(BATCH_END)].concat();
        send(self.0.as_raw_fd(), &bytes, MsgFlags::empty())?;
        self.messages()?.iter().try_for_each(Message::consent)
    }

    fn send(&self, kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]) -> io::Result<()> {
        send(self.0.as_raw_fd(), &message(kind, flags, family, resource, attributes), MsgFlags::empty())?;
        Ok(())
    }
}

/// A batch of nftables requests that are committed together or not at all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch(Vec<u8>);

impl Batch {
    /// Adds a request that creates an object of a family.
    pub(crate) fn create(&mut self, kind: u8, family: u8, attributes: &[u8]) {
        self.add(kind, CREATE, family, attributes);
    }

    /// Adds a request that changes or deletes an object of a family.
    pub(crate) fn change(&mut self, kind: u8, family: u8, attributes: &[u8]) {
        self.add(kind, 0, family, attributes);
    }

    fn add(&mut self, kind: u8, flags: u16, family: u8, attributes: &[u8]) {
        let kind = u16::from(NFTABLES) << 8 | u16::from(kind);
        self.0.extend(message(kind, REQUEST | ACKNOWLEDGE | flags, family, 0, attributes));
    }
}

/// A message as bytes.
fn message(kind: u16, flags: u16, family: u8, resource: u16, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADERS + attributes.len());
    bytes.extend(((HEADERS + attributes.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes);
    bytes
}

impl Message {
    /// The value of an attribute.
    pub(crate) fn attribute(&self, wanted: u16) -> Option<&[u8]> {
        attribute(&self.attributes, wanted)
    }

    /// The value of a text attribute.
    pub(crate) fn text(&self, wanted: u16) -> Option<String> {
        let bytes = self.attribute(wanted)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The value of a 32-bit attribute in network byte order.
    pub(crate) fn word(&self, wanted: u16) -> Option<u32> {
        self.attribute(wanted)?.first_chunk().copied().map(u32::from_be_bytes)
    }

    /// The value of a 64-bit attribute in network byte order.
    pub(crate) fn long(&self, wanted: u16) -> Option<u64> {
        self.attribute(wanted)?.first_chunk().copied().map(u64::from_be_bytes)
    }

    /// The error that a message reports, if any.
    fn consent(&self) -> io::Result<()> {
        match (self.kind, self.error) {
            (ERROR, number) if number != 0 => Err(io::Error::from_raw_os_error(-number)),
            _ => Ok(()),
        }
    }
}

/// An attribute as bytes: its length, its type, its value, and padding up to the alignment of the next.
pub(crate) fn encode(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of an attribute among several.
pub(crate) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((header, _)) = bytes.split_first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The upper two bits are flags: nested, and network byte order.
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// Splits what was received into its messages.
fn split(mut bytes: &[u8], messages: &mut Vec<Message>) {
    while let Some((header, _)) = bytes.split_first_chunk::<HEADERS>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(message) = bytes.get(..length).filter(|message| message.len() >= HEADERS) else { return };
        messages.push(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            family: header[16],
            error: i32::from_ne_bytes([header[16], header[17], header[18], header[19]]),
            attributes: message[HEADERS..].to_vec(),
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}
