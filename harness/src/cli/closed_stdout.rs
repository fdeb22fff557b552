//! Whether standard output was closed when the process was started.
//!
//! The standard library opens `/dev/null` in its place, so that everything can be written and nothing arrives anywhere.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks whether standard output is open. To be called before `main`; it does nothing but ask the kernel.
pub(crate) fn look_at_standard_output() {
    let is_open = fs::symlink_metadata("/proc/self/fd/1").is_ok() || fs::symlink_metadata("/proc/self/fd").is_err();
    IS_CLOSED.store(!is_open, Ordering::Relaxed);
}

/// What was written to standard output, where that was open.
///
/// # Errors
///
/// The error of writing to a closed descriptor (`EBADF`).
pub(super) fn arrived(written: io::Result<()>) -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) { written.and(Err(Errno::EBADF.into())) } else { written }
}
