//! Detection of a standard output that was closed when the process started.
//!
//! The standard library opens `/dev/null` in its place, so that all writes would succeed and the output would be lost.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Records whether standard output is open. Must be called before `main`; it makes only system calls.
pub(crate) fn check_standard_output() {
    let is_open = fs::symlink_metadata("/proc/self/fd/1").is_ok() || fs::symlink_metadata("/proc/self/fd").is_err();
    IS_CLOSED.store(!is_open, Ordering::Relaxed);
}

/// Returns the result of writing to standard output, if it was open.
///
/// # Errors
///
/// The error of writing to a closed descriptor (`EBADF`).
pub(super) fn checked(written: io::Result<()>) -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) { written.and(Err(Errno::EBADF.into())) } else { written }
}
