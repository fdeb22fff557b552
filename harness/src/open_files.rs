//! The limit on open files.

use std::io;

use nix::errno::Errno;

/// How to raise it.
pub(crate) const RAISE: &str = "Raise the limit on open files before svclab starts (`ulimit -n 65536`, as root also `ulimit -Hn 65536`), or run fewer labs in \
     parallel (`--jobs`). `svclab doctor` shows the limit.";

/// Whether an error means that the process or the machine has reached it.
pub(crate) fn is_reached(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE))
}
