//! File descriptors passed over a socket (`SCM_RIGHTS`, `unix(7)`).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::unistd::close;

/// The maximum number of descriptors passed at once: the mount, network and PID namespaces of a place.
const MAX: usize = 3;

/// Sends descriptors.
pub(super) fn send(stream: &UnixStream, descriptors: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(b"d")], &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// Receives the descriptors of one [`send`].
pub(super) fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut buffer = [0];
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let mut control = cmsg_space!([RawFd; MAX]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
    let mut received = Vec::new();
    for message in message.cmsgs()? {
        let ControlMessageOwned::ScmRights(descriptors) = message else { continue };
        for descriptor in descriptors {
            // Take ownership of the raw descriptor.
            let own = File::open(format!("/proc/self/fd/{descriptor}"));
            let _ = close(descriptor);
            received.push(own?.into());
        }
    }
    Ok(received)
}
