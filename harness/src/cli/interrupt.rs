//! Ctrl-C and SIGTERM: the command ends at once, and the kernel takes every lab down with it.

use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::sys::signal::{SigSet, Signal};

use super::terminal;
use svclab::report::{Cause, Trouble};
use svclab::text::reason;

/// What SIGINT is for, where it does not end the process.
static INTERRUPTED: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);
/// The thread that waits for signals is started once.
static STARTED: OnceLock<()> = OnceLock::new();

/// Hands every SIGINT to a function from now on; SIGTERM still ends the process. Must be called before other threads are started, unless
/// [`exit_on_signals`] was.
///
/// # Errors
///
/// As [`exit_on_signals`].
pub(crate) fn on_interrupt(interrupted: impl Fn() + Send + 'static) -> Result<(), Trouble> {
    *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(interrupted));
    exit_on_signals()
}

/// Waits for SIGINT and SIGTERM in a thread of its own, and then ends the process with 128 plus the signal's number, as
/// shells do. Must be called before other threads are started: they inherit that the signals wait.
///
/// # Errors
///
/// Where no thread can be started: then no lab can be built either.
pub(crate) fn exit_on_signals() -> Result<(), Trouble> {
    if STARTED.set(()).is_err() {
        return Ok(());
    }
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        // Then the signals end the process as they do without this; only the message is missing.
        return Ok(());
    }
    let wait = move || {
        while let Ok(signal) = signals.wait() {
            act(signal);
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

fn act(signal: Signal) {
    let interrupted = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner);
    match (signal, &*interrupted) {
        (Signal::SIGINT, Some(interrupted)) => interrupted(),
        (_, Some(_)) => {
            terminal::restore_modes();
            std::process::exit(128 + signal as i32)
        }
        (_, None) => {
            let _ = writeln!(std::io::stderr(), "\ninterrupted: no verdict; the labs have been removed");
            std::process::exit(128 + signal as i32);
        }
    }
}
