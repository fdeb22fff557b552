//! Processes that build labs, so that the death of one is the failure of what it was doing and not of the command.
//!
//! A command starts svclab once more, as a worker of its [`Kind`], and sends it orders; the worker serves them, one after
//! the other. Both sides write frames to a pipe:
//!
//! - `frame`: a value on a pipe; `message`: what a worker says;
//! - `scenario_texts`: a scenario as both sides read it;
//! - `process`: the command's side; `timeouts`: how long a worker is waited for; `error`: how it ends early;
//! - `home`: where workers are: on this machine, or on a kernel of their own; `slot`: the worker of a thread;
//! - `serve`: the worker's side.
//!
//! A worker is killed with the thread that started it.

mod error;
mod frame;
mod home;
mod message;
mod process;
mod scenario_texts;
mod serve;
mod slot;
mod timeouts;

pub(crate) use error::WorkerError;
pub(crate) use frame::{read as read_frame, write as write_frame};
pub use home::{Home, Machines};
pub(crate) use scenario_texts::{Texts, misread, not_applicable};
pub(crate) use serve::{Command, serve};
pub(crate) use slot::Slot;

/// The argument that makes svclab a worker; the name of its [`Kind`] follows.
pub const WORKER: &str = "worker";

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The tests of scenarios.
    Run,
    /// Verifications.
    Verify,
    /// Trials of mutants.
    Mutate,
    /// A traced packet.
    Explain,
    /// Packets that are handled differently.
    Diff,
    /// Samples of cascades.
    Sample,
    /// What a machine has and lacks.
    Doctor,
    /// None of these: it waits, as the first process of the PID namespace that programs of a shell run in.
    Init,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] =
        [Self::Run, Self::Verify, Self::Mutate, Self::Explain, Self::Diff, Self::Sample, Self::Doctor, Self::Init];

    /// The argument that chooses it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Verify => "verify",
            Self::Mutate => "mutate",
            Self::Explain => "explain",
            Self::Diff => "diff",
            Self::Sample => "sample",
            Self::Doctor => "doctor",
            Self::Init => "init",
        }
    }
}
