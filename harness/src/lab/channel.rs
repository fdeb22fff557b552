//! Packet sockets, which send frames on interfaces and capture them.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockType, getsockopt, recvmsg, setsockopt,
    socket, sockopt,
};
use nix::{getsockopt_impl, libc, sockopt_impl};
use pnet_datalink::{self as datalink, DataLinkSender, NetworkInterface};

use super::LabError;
use super::namespaces::Namespace;

/// `sll_pkttype` of a packet that the interface sends (linux/if_packet.h).
const PACKET_OUTGOING: u8 = 4;

sockopt_impl!(
    /// The memory use of a socket and its drop counter: `SO_MEMINFO` (linux/sock_diag.h).
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; 9]
);
/// SK_MEMINFO_DROPS of linux/sock_diag.h.
const DROPS: usize = 8;

/// The number of packets that a socket had dropped when it was last asked, because its receive buffer was full.
#[derive(Debug, Default)]
pub(crate) struct Losses(Cell<u32>);

impl Losses {
    /// Returns the number of packets that a socket has dropped since the last call because its receive buffer was full.
    pub(crate) fn newly(&self, socket: &impl AsFd) -> io::Result<u32> {
        let all = getsockopt(socket, MemoryInfo)?[DROPS];
        Ok(all.wrapping_sub(self.0.replace(all)))
    }
}

/// The requested size of the receive buffer in bytes.
const ROOM: usize = 4 << 20;

/// Gives a socket the largest receive buffer that the kernel grants. Only the host's root may exceed
/// `net.core.rmem_max`.
pub(crate) fn give_room(socket: &impl AsFd) -> io::Result<()> {
    setsockopt(socket, sockopt::RcvBufForce, &ROOM).or_else(|_| setsockopt(socket, sockopt::RcvBuf, &ROOM))?;
    Ok(())
}

/// A packet socket, bound to one interface or to all interfaces of a namespace.
pub(crate) struct Channel {
    netns: String,
    sender: Box<dyn DataLinkSender>,
    /// A duplicate of the socket that pnet bound: for reading with the interface's index, and for sending many frames at once.
    socket: OwnedFd,
    losses: Losses,
}

/// A frame as received by a packet socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its length; larger than the buffer if it was truncated.
    pub length: usize,
    /// The interface.
    pub interface: u32,
    /// Whether the interface sent it.
    pub outgoing: bool,
    /// The kernel's time stamp, since 1970.
    pub time: Duration,
}

impl Channel {
    /// Opens a channel on an interface, or with index 0 on all interfaces.
    pub(super) fn open(namespace: &Namespace, interface: u32) -> Result<Self, LabError> {
        let netns = namespace.name().to_owned();
        let opened = namespace.run(|| bind(interface))?;
        let (sender, socket) = opened.map_err(LabError::socket(&netns, "opening a packet socket"))?;
        Ok(Self { netns, sender, socket, losses: Losses::default() })
    }

    /// Opens a channel on all interfaces of the calling thread's namespace, whose name is given for errors.
    ///
    /// # Errors
    ///
    /// If the kernel provides no socket.
    pub(crate) fn here(netns: &str) -> Result<Self, LabError> {
        let (sender, socket) = bind(0).map_err(LabError::socket(netns, "opening a packet socket"))?;
        Ok(Self { netns: netns.to_owned(), sender, socket, losses: Losses::default() })
    }

    /// Puts a frame on the interface.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), LabError> {
        let mut send = || self.sender.send_to(frame, None).unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()));
        // The first error may be a stored one: the interface was down in the meantime.
        let sent = send().or_else(|error| if is_about_link(&error) { send() } else { Err(error) });
        sent.map_err(|source| self.error("sending a frame", source))
    }

    /// Returns the next captured frame, or `None` if there is none now.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Option<Seen>, LabError> {
        let mut control = nix::cmsg_space!(libc::timespec);
        let mut slices = [IoSliceMut::new(buffer)];
        let received = match recvmsg::<LinkAddr>(self.fd(), &mut slices, Some(&mut control), MsgFlags::MSG_TRUNC) {
            Ok(received) => received,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(self.error("receiving a frame", errno.into())),
        };
        let Some(from) = received.address else { return Ok(None) };
        let time = received.cmsgs().into_iter().flatten().find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
            _ => None,
        });
        Ok(Some(Seen {
            length: received.bytes,
            interface: u32::try_from(from.ifindex()).unwrap_or_default(),
            outgoing: from.pkttype() == PACKET_OUTGOING,
            time: time.unwrap_or_default(),
        }))
    }

    /// Clears the error that the socket stores after its interface was down.
    pub(crate) fn forget_error(&self) -> Result<(), LabError> {
        getsockopt(&self.socket, sockopt::SocketError)
            .map(drop)
            .map_err(|errno| self.error("asking for errors", errno.into()))
    }

    /// The namespace that it is in.
    pub(crate) fn netns(&self) -> &str {
        &self.netns
    }

    /// The size of the receive buffer in bytes, as the kernel counts it.
    pub(crate) fn room(&self) -> Result<usize, LabError> {
        let room = getsockopt(&self.socket, sockopt::RcvBuf);
        room.map_err(|errno| self.error("reading a packet socket's buffer size", errno.into()))
    }

    /// Returns the number of frames dropped since the last call because the receive buffer was full.
    pub(crate) fn newly_lost(&self) -> Result<u32, LabError> {
        self.losses.newly(&self.socket).map_err(|source| self.error("reading a packet socket's drop counter", source))
    }

    /// Waits until there may be a frame to receive, at most a millisecond.
    pub(crate) fn wait(&self) -> Result<(), LabError> {
        const MILLISECOND: u16 = 1;
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, MILLISECOND) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(self.error("waiting for a frame", errno.into())),
        }
    }

    /// The socket's file descriptor, for sending and receiving many frames at once.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The socket, to set its options.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// An error of this socket.
    pub(crate) fn error(&self, what: &'static str, source: io::Error) -> LabError {
        LabError::socket(&self.netns, what)(source)
    }
}

/// Whether the error says that an interface was down.
fn is_about_link(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw) == Some(Errno::ENETDOWN)
}

/// Makes the kernel time-stamp packets on arrival, for as long as the result lives.
///
/// The kernel starts stamping a moment after the first socket asks for it; until then a packet gets the time at which it is read. So a lab
/// asks first of all when it is built, and waits for the stamps at the end ([`super::barrier::Barrier::wait_for_stamps`]).
pub(super) fn start_stamping() -> io::Result<OwnedFd> {
    let asks = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&asks, sockopt::ReceiveTimestampns, &true)?;
    Ok(asks)
}

/// Closing a packet socket waits for an RCU grace period, 10 ms and more. So each socket is closed by a thread of its own, all
/// in parallel.
pub(crate) fn close_all(channels: impl IntoIterator<Item = Channel>) {
    for channel in channels {
        // Without a thread, the channel is closed right here.
        let _ = std::thread::Builder::new().spawn(move || drop(channel));
    }
}

/// Creates a packet socket and lets pnet bind it. It is created without a protocol, because the kernel takes longer to
/// bind a socket that already receives.
fn bind(index: u32) -> io::Result<(Box<dyn DataLinkSender>, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    give_room(&socket)?;
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
