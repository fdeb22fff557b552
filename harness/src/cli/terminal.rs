//! Terminal modes that a prompt changes, restored if a signal ends the process, so that the calling shell finds them unchanged.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

/// The terminal modes when the prompt was opened; `None` without a prompt.
static KEPT: Mutex<Option<Termios>> = Mutex::new(None);

/// Ends bracketed paste, which the prompt enables.
const NO_BRACKETED_PASTE: &[u8] = b"\x1b[?2004l";

/// Remembers the modes of standard input.
pub(super) fn keep_modes() {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(io::stdin()).ok();
}

/// Restores the modes if a prompt has changed them.
pub(super) fn restore_modes() {
    if let Some(modes) = &*KEPT.lock().unwrap_or_else(PoisonError::into_inner) {
        // A program in the lab may be in the foreground: then the kernel would stop this process.
        let mut stops = SigSet::empty();
        stops.add(Signal::SIGTTOU);
        // The terminal may be gone, and the process ends.
        let _ = stops.thread_block();
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, modes);
        let _ = io::stdout().write_all(NO_BRACKETED_PASTE).and_then(|()| io::stdout().flush());
    }
}
