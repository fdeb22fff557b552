//! Sending and receiving many frames in one system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{LinkAddr, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use socket2::Socket;

use crate::kernel::patience;
use crate::wire::Template;

/// The number of packets sent or received by one call.
pub(super) const BATCH: usize = 64;
/// The number of bytes of a frame that counting needs.
pub(super) const SNAP: usize = 128;
/// The time after which a socket that accepts no packet is considered stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Frames or packets that are sent together.
pub(super) type Frames = [[u8; Template::MAX_LEN]];

/// A socket that many packets are written to.
pub(super) enum Outgoing {
    /// A packet socket, which the prober owns. It queues frames on a link, before any rule counts them.
    Wire(RawFd),
    /// A raw socket of a process. When a call returns, its packets have passed the rules of OUTPUT.
    Process(Socket),
}

impl Outgoing {
    fn fd(&self) -> RawFd {
        match self {
            Self::Wire(fd) => *fd,
            Self::Process(socket) => socket.as_raw_fd(),
        }
    }

    /// The maximum number of packets per call. sendmmsg(2) reports an error only for its first packet: if a later one fails, the next call
    /// begins with that packet again. A link that refused a frame must get it again, but a packet that a rule dropped must not be sent twice.
    fn most_per_call(&self) -> usize {
        match self {
            Self::Wire(_) => BATCH,
            Self::Process(_) => 1,
        }
    }

    /// Sends packets of one length.
    pub(super) fn send(&self, packets: &Frames, length: usize) -> io::Result<()> {
        packets.chunks(self.most_per_call()).try_for_each(|some| send_all(self.fd(), some, length))
    }
}

/// Sends packets of one length over a bound or connected socket.
fn send_all(fd: RawFd, frames: &Frames, length: usize) -> io::Result<()> {
    let begin = Instant::now();
    let mut left = frames;
    while !left.is_empty() {
        let slices: Vec<[IoSlice<'_>; 1]> = left.iter().map(|frame| [IoSlice::new(&frame[..length])]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
        let unaddressed = vec![None; slices.len()];
        match sendmmsg(fd, &mut headers, &slices, unaddressed, [], MsgFlags::empty()) {
            Ok(sent) => left = &left[sent.count().max(1)..],
            // A DROP in OUTPUT, or a link that is down: the packet is lost, which the count will show.
            Err(Errno::EPERM | Errno::ENETDOWN) => left = &left[1..],
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) if begin.elapsed() < patience(PATIENCE) => {
                std::thread::yield_now();
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Receives up to a batch of available frames, each with its interface, and returns their number.
pub(super) fn receive_many(fd: RawFd, mut each: impl FnMut(&[u8], u32)) -> io::Result<usize> {
    let mut buffers = [[0; SNAP]; BATCH];
    let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    let mut headers = MultiHeaders::<LinkAddr>::preallocate(BATCH, None);
    let received: Vec<(usize, u32)> = match recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)
    {
        Ok(received) => received
            .map(|message| {
                let interface = message.address.and_then(|from| u32::try_from(from.ifindex()).ok());
                (message.bytes, interface.unwrap_or_default())
            })
            .collect(),
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    for (buffer, (length, interface)) in buffers.iter().zip(&received) {
        each(&buffer[..(*length).min(SNAP)], *interface);
    }
    Ok(received.len())
}
