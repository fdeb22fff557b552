//! The nodes' connection tables.

use std::io;

use nix::errno::Errno;
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;

use super::LabError;
use super::namespaces::Namespace;
use super::programs::{at_once, failed, run};

/// The program that edits connection tables.
const PROGRAM: &str = "conntrack";

/// The connection table of a namespace, held open by a netlink socket. It may be used from any thread.
pub(crate) struct Connections {
    space: String,
    socket: Socket,
}

impl Connections {
    /// Opens a namespace's table.
    pub(super) fn open(namespace: &Namespace) -> Result<Self, LabError> {
        let space = namespace.name().to_owned();
        let opened = namespace.run(|| Socket::new(NETLINK_NETFILTER))?;
        let socket = opened.map_err(LabError::socket(&space, "opening the connection table"))?;
        Ok(Self { space, socket })
    }

    /// Empties the table: connections of all families. A table that is empty already costs nothing, any other the time to
    /// look through the machine's whole table, some milliseconds.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses it.
    pub(crate) fn flush(&self) -> Result<(), LabError> {
        let answer = self.socket.send(&FLUSH, 0).and_then(|_| self.socket.recv_from_full());
        let (answer, _) = answer.map_err(LabError::socket(&self.space, "emptying the connection table"))?;
        match errno_in(&answer) {
            Some(0) => Ok(()),
            Some(errno) => {
                let operation = "emptying the connection table".to_owned();
                Err(LabError::Netlink { space: self.space.clone(), operation, errno: Errno::from_raw(errno) })
            }
            None => {
                let source = io::ErrorKind::InvalidData.into();
                Err(LabError::socket(&self.space, "emptying the connection table")(source))
            }
        }
    }
}

/// The message that deletes every connection: a `nlmsghdr` (linux/netlink.h) and a `nfgenmsg` (linux/netfilter/nfnetlink.h)
/// without any attribute that would choose some of them.
const FLUSH: [u8; 20] = {
    const LENGTH: u32 = 20;
    /// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE`.
    const DELETE: u16 = 1 << 8 | 2;
    /// `NLM_F_REQUEST | NLM_F_ACK`.
    const ACKNOWLEDGED: u16 = 1 | 4;
    let (length, kind, flags) = (LENGTH.to_ne_bytes(), DELETE.to_ne_bytes(), ACKNOWLEDGED.to_ne_bytes());
    let [a, b, c, d] = length;
    [a, b, c, d, kind[0], kind[1], flags[0], flags[1], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
};

/// The error number in an acknowledgement, 0 for success; `None` where the message is none.
fn errno_in(message: &[u8]) -> Option<i32> {
    const NLMSG_ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let error = i32::from_ne_bytes(*message.get(16..)?.first_chunk()?);
    (kind == NLMSG_ERROR).then_some(-error)
}

/// Runs conntrack in a namespace with each of several lists of arguments.
pub(super) fn call_each(namespace: &Namespace, calls: &[Vec<String>]) -> Result<(), LabError> {
    at_once(calls.iter().map(|arguments| || call(namespace, arguments)))
}

/// Runs conntrack. That nothing was there to delete is success, though its exit code is 1.
fn call<S: AsRef<std::ffi::OsStr>>(namespace: &Namespace, arguments: &[S]) -> Result<(), LabError> {
    let output = run(namespace, PROGRAM, arguments, "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || found_nothing(&said) {
        return Ok(());
    }
    Err(failed(namespace, PROGRAM, &said.lines().last().unwrap_or("no message")))
}

/// Whether a message is that of a call which found no connection: `conntrack v1.4.7 (conntrack-tools): 0 flow entries have been
/// deleted.`
fn found_nothing(message: &str) -> bool {
    let before = message.split_once(" flow entries").map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()) == Some("0")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::found_nothing;

    #[rstest]
    #[case::none("conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n", true)]
    #[case::ten("conntrack v1.4.7 (conntrack-tools): 10 flow entries have been deleted.\n", false)]
    #[case::other("conntrack v1.4.7 (conntrack-tools): Operation failed: invalid parameters\n", false)]
    fn nothing_to_delete_is_told_from_a_failure(#[case] message: &str, #[case] expected: bool) {
        assert_eq!(found_nothing(message), expected);
    }
}
