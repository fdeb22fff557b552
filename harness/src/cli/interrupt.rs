//! Ctrl-C and SIGTERM: the command exits immediately, and the kernel removes every lab with it. A shell uses the keys of its terminal
//! differently.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::sys::signal::{SigSet, Signal};

use super::terminal;
use svclab::report::{Cause, Trouble};
use svclab::text::reason;

/// A handler of terminal keys.
type Pressed = Box<dyn Fn(Signal) + Send>;

/// The handler of terminal keys, if they do not end or stop the process.
static KEYS: Mutex<Option<Pressed>> = Mutex::new(None);
/// Whether the process only waits for a file to change, so that nothing is interrupted.
static IDLE: AtomicBool = AtomicBool::new(false);
/// Ensures that the thread that waits for signals is started only once.
static STARTED: OnceLock<()> = OnceLock::new();

/// Passes the signals of these terminal keys (SIGINT, SIGTSTP) to a function from now on; SIGTERM still ends the process. Must be called
/// before other threads are started.
///
/// # Errors
///
/// As [`exit_on_signals`].
pub(crate) fn on_keys(keys: &[Signal], pressed: impl Fn(Signal) + Send + 'static) -> Result<(), Trouble> {
    *KEYS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(pressed));
    wait_for(keys)
}

/// Waits for SIGINT and SIGTERM in a separate thread, and then ends the process with 128 plus the signal's number, as shells do. Must be
/// called before other threads are started, so that they inherit the blocked signals.
///
/// # Errors
///
/// If no thread can be started: then no lab can be built either.
pub(crate) fn exit_on_signals() -> Result<(), Trouble> {
    wait_for(&[Signal::SIGINT])
}

/// Runs a function that can be interrupted without loss.
pub(crate) fn idle<T>(wait: impl FnOnce() -> T) -> T {
    IDLE.store(true, Ordering::Relaxed);
    let waited = wait();
    IDLE.store(false, Ordering::Relaxed);
    waited
}

/// Waits for SIGTERM and the signals of keys, in a separate thread.
fn wait_for(keys: &[Signal]) -> Result<(), Trouble> {
    if STARTED.set(()).is_err() {
        return Ok(());
    }
    let signals: SigSet = keys.iter().copied().chain([Signal::SIGTERM]).collect();
    if signals.thread_block().is_err() {
        // Then the signals end the process by default, only without the message.
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
    let pressed = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    match (signal, &*pressed) {
        (Signal::SIGINT | Signal::SIGTSTP, Some(pressed)) => pressed(signal),
        (_, Some(_)) => {
            terminal::restore_modes();
            std::process::exit(128 + signal as i32)
        }
        (_, None) if IDLE.load(Ordering::Relaxed) => end(signal, ""),
        (_, None) => end(signal, "interrupted: no verdict; the labs have been removed"),
    }
}

/// Ends the process as a signal does, after a message.
pub(crate) fn end(signal: Signal, text: &str) -> ! {
    // If the terminal is gone, nothing reads the message.
    let _ = writeln!(std::io::stderr(), "\n{text}");
    std::process::exit(128 + signal as i32)
}
