//! Sending and receiving many frames in one system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{LinkAddr, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

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

/// Sends packets of one length over a bound or connected socket.
pub(super) fn send_all(fd: RawFd, frames: &Frames, length: usize) -> io::Result<()> {
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
