//! Errors of worker processes.

use std::io;
use std::process::ExitStatus;

use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;

use super::timeouts::TimeoutError;
use crate::open_files;
use crate::report::{Cause, Trouble};
use crate::text::reason;
use crate::vm::{Ending, VmError};

/// The error of a worker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// The worker cannot be started.
    #[error("starting a worker process: {}", reason(.0))]
    NotStarted(io::Error),
    /// The virtual machine for the worker cannot be started.
    #[error(transparent)]
    NoMachine(#[from] VmError),
    /// The worker exited or was killed.
    #[error("the worker process of this lab {how}")]
    Died {
        /// How: `was killed by signal 9 (SIGKILL)`.
        how: String,
        /// The number of the signal.
        signal: Option<i32>,
    },
    /// The worker timed out.
    #[error(transparent)]
    TimeoutError(TimeoutError),
    /// The virtual machine of the worker has stopped, or does not respond.
    #[error("{0}")]
    Machine(Ending),
    /// The worker could not execute the order.
    #[error("{}", .0.message)]
    Unable(Box<Trouble>),
}

impl WorkerError {
    /// The error of a worker that has exited with a status.
    pub(super) fn ended(status: ExitStatus) -> Self {
        let signal = status.signal();
        let how = match signal {
            Some(number) => match Signal::try_from(number) {
                Ok(signal) => format!("was killed by signal {number} ({signal})"),
                Err(_) => format!("was killed by signal {number}"),
            },
            None => format!("ended early ({status})"),
        };
        Self::Died { how, signal }
    }

    /// Whether KVM may be the cause.
    pub(super) fn may_be_of_accelerator(&self) -> bool {
        matches!(self, Self::Machine(ending) if ending.cause.may_be_of_accelerator())
    }

    /// Converts the error for reports.
    pub(crate) fn into_trouble(self) -> Trouble {
        let message = self.to_string();
        let (cause, help) = match self {
            Self::Unable(trouble) => return *trouble,
            Self::NoMachine(error) => return error.into(),
            Self::NotStarted(source) if open_files::is_reached(&source) => (Cause::Environment, open_files::RAISE),
            Self::NotStarted(_) => {
                (Cause::Environment, "Allow more processes (`ulimit -u`, or the container's limit).")
            }
            Self::Died { signal, .. } => death_cause(signal),
            Self::Machine(ending) => ending.cause.trouble(),
            Self::TimeoutError(TimeoutError::Silent(_)) => (
                Cause::Environment,
                "Find out what stopped it: a SIGSTOP, a frozen cgroup, or a machine without free memory or CPU time.",
            ),
            Self::TimeoutError(TimeoutError::Overdue { .. }) => (
                Cause::Environment,
                "Give it more time with --timeout. If it never ends, please report it with the scenario.",
            ),
        };
        Trouble { cause, message, help: Some(help.to_owned()), span: None }
    }
}

/// The cause of a worker's death, and the fix. svclab itself never sends its workers the signals by which users or the kernel kill a
/// process.
fn death_cause(signal: Option<i32>) -> (Cause, &'static str) {
    match signal.and_then(|number| Signal::try_from(number).ok()) {
        Some(Signal::SIGKILL) => {
            let help = "Look in `dmesg` for \"Out of memory\": if the kernel killed it, run fewer labs in parallel (`--jobs 1`) or allow \
                        more memory.";
            (Cause::Environment, help)
        }
        Some(Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT | Signal::SIGXCPU) => {
            (Cause::Environment, "Run it again: something outside of svclab killed this process.")
        }
        _ => (
            Cause::Internal,
            "This is a bug in svclab: please report it with the scenario and the output on standard error.",
        ),
    }
}
