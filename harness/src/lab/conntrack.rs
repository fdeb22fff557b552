//! The nodes' connection tables.

use super::LabError;
use super::namespaces::Namespace;
use super::netfilter::Socket;
use super::programs::{at_once, failed, run};

/// The program that edits connection tables.
const PROGRAM: &str = "conntrack";

/// `NFNL_SUBSYS_CTNETLINK` with `IPCTNL_MSG_CT_DELETE`, `IPCTNL_MSG_CT_GET_STATS_CPU`
/// (`linux/netfilter/nfnetlink_conntrack.h`).
const DELETE: u16 = 1 << 8 | 2;
const STATISTICS: u16 = 1 << 8 | 4;
/// `CTA_STATS_INSERT_FAILED`, of one processor.
const INSERT_FAILED: u16 = 9;
/// `AF_UNSPEC`.
const ALL_FAMILIES: u8 = 0;

/// The connection table of a namespace, held open by a netlink socket. It may be used from any thread.
pub(crate) struct Connections {
    space: String,
    socket: Socket,
}

impl Connections {
    /// Opens a namespace's table.
    pub(super) fn open(namespace: &Namespace) -> Result<Self, LabError> {
        let space = namespace.name().to_owned();
        let opened = namespace.run(|| Socket::open(0))?;
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
        // Without an attribute that would choose some of them, every connection is deleted.
        let flushed = self.socket.request(DELETE, ALL_FAMILIES, 0, &[]);
        flushed.map_err(LabError::socket(&self.space, "emptying the connection table"))
    }

    /// How many packets the namespace has dropped so far because their connection could not be entered any more: in the
    /// meantime another processor had entered one with the same addresses and ports (`insert_failed` of `conntrack -S`).
    ///
    /// # Errors
    ///
    /// Where the kernel does not tell.
    pub(crate) fn collisions(&self) -> Result<u64, LabError> {
        let told = self.socket.list(STATISTICS, ALL_FAMILIES, &[]);
        let told = told.map_err(LabError::socket(&self.space, "asking the connection table for its statistics"))?;
        Ok(told.iter().filter_map(|processor| processor.word(INSERT_FAILED)).map(u64::from).sum())
    }
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
