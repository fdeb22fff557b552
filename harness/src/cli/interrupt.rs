//! Ctrl-C and SIGTERM: the command ends at once, and the kernel takes every lab down with it.

use std::io::Write;

use nix::sys::signal::{SigSet, Signal};

use svclab::report::{Cause, Trouble};
use svclab::text::reason;

/// Waits for SIGINT and SIGTERM in a thread of its own, and then ends the process with 128 plus the signal's number, as
/// shells do. Must be called before other threads are started: they inherit that the signals wait.
///
/// # Errors
///
/// Where no thread can be started: then no lab can be built either.
pub(crate) fn exit_on_signals() -> Result<(), Trouble> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        // Then the signals end the process as they do without this; only the message is missing.
        return Ok(());
    }
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            let _ = writeln!(std::io::stderr(), "\ninterrupted: no verdict; the labs have been removed");
            std::process::exit(128 + signal as i32);
        }
    };
    let begun = std::thread::Builder::new().spawn(wait);
    begun.map(drop).map_err(|error| Trouble {
        cause: Cause::Environment,
        message: format!("starting a thread: {}", reason(error)),
        help: Some("Allow more processes (`ulimit -u`, or the container's limit).".to_owned()),
        span: None,
    })
}
