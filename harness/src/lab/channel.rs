//! Packet sockets: where frames are put on an interface and where they are captured.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, LinkAddr, SockFlag, SockType, recvfrom, socket};
use pnet::datalink::{self, DataLinkSender, NetworkInterface};

use super::LabError;
use super::namespaces::Namespace;

/// `sll_pkttype` of a packet that the interface sends (linux/if_packet.h).
const PACKET_OUTGOING: u8 = 4;

/// A packet socket, bound to one interface or to all interfaces of a namespace.
pub(crate) struct Channel {
    space: String,
    sender: Box<dyn DataLinkSender>,
    /// The socket that pnet bound, once more: for reading with the interface's index, and for sending many at once.
    socket: Option<OwnedFd>,
}

/// A frame as a packet socket saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its length; more than the buffer where it was cut.
    pub length: usize,
    /// The interface.
    pub interface: u32,
    /// True where the interface sent it.
    pub outgoing: bool,
}

impl Channel {
    /// Opens a channel on an interface, or on all of them with index 0.
    pub(super) fn open(namespace: &Namespace, interface: u32) -> Result<Self, LabError> {
        let space = namespace.name().to_owned();
        let opened = namespace.run(|| bind(interface))?;
        let (sender, socket) = opened.map_err(|source| LabError::Socket {
            space: space.clone(),
            what: "opening a packet socket",
            source,
        })?;
        Ok(Self { space, sender, socket: Some(socket) })
    }

    /// Puts a frame on the interface.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), LabError> {
        let sent = self.sender.send_to(frame, None).unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()));
        sent.map_err(|source| self.error("sending a frame", source))
    }

    /// The next frame that was seen, or `None` where there is none now.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Option<Seen>, LabError> {
        match recvfrom::<LinkAddr>(self.fd(), buffer) {
            Ok((length, Some(from))) => {
                let interface = u32::try_from(from.ifindex()).unwrap_or_default();
                Ok(Some(Seen { length, interface, outgoing: from.pkttype() == PACKET_OUTGOING }))
            }
            Ok((_, None)) | Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(self.error("receiving a frame", errno.into())),
        }
    }

    /// The socket's file descriptor, for sending and receiving many frames at once.
    pub(crate) fn fd(&self) -> i32 {
        self.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// An error of this socket.
    pub(crate) fn error(&self, what: &'static str, source: io::Error) -> LabError {
        LabError::Socket { space: self.space.clone(), what, source }
    }
}

impl Drop for Channel {
    /// Closing a packet socket waits for all processors to pass a quiet state, 10 ms and more. All sockets of a lab wait at
    /// the same time, each in a thread of its own; the process need not wait for any.
    fn drop(&mut self) {
        let sender = std::mem::replace(&mut self.sender, Box::new(Closed));
        let socket = self.socket.take();
        let closing = std::thread::Builder::new().name("close".to_owned()).spawn(move || drop((sender, socket)));
        // Without a thread to be had, the closure and the sockets in it were dropped here.
        drop(closing);
    }
}

/// Stands in for the sender of a channel that is being closed.
struct Closed;

impl DataLinkSender for Closed {
    fn build_and_send(&mut self, _: usize, _: usize, _: &mut dyn FnMut(&mut [u8])) -> Option<io::Result<()>> {
        None
    }

    fn send_to(&mut self, _: &[u8], _: Option<NetworkInterface>) -> Option<io::Result<()>> {
        None
    }
}

/// Makes a packet socket and lets pnet bind it. The socket is made for no protocol: one that receives from the start
/// would make the kernel wait when it is bound.
fn bind(index: u32) -> io::Result<(Box<dyn DataLinkSender>, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
    let own = socket.try_clone()?;
    let interface = NetworkInterface {
        name: String::new(),
        description: String::new(),
        index,
        mac: None,
        ips: Vec::new(),
        flags: 0,
    };
    let config = datalink::Config {
        promiscuous: false,
        read_timeout: Some(Duration::ZERO),
        socket_fd: Some(socket.into_raw_fd()),
        ..datalink::Config::default()
    };
    match datalink::channel(&interface, config)? {
        datalink::Channel::Ethernet(sender, _) => Ok((sender, own)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
