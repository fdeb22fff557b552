//! Worker processes that build labs: if one dies, only its current task fails, not the command.
//!
//! A command starts svclab again, as a worker of a [`Kind`], and sends it orders, which the worker executes one after the other. Both sides
//! write frames to a pipe:
//!
//! - `frame`: a value on a pipe; `message`: the messages of a worker;
//! - `scenario_texts`: a scenario, parsed identically by both sides;
//! - `process`: the command's side; `timeouts`: how long to wait for a worker; `error`: the errors of workers;
//! - `location`: where workers run: on this machine, or in virtual machines; `slot`: the worker of a thread;
//! - `serve`: the worker's side.
//!
//! A worker is killed when the thread that started it ends.

mod error;
mod frame;
mod location;
mod message;
mod process;
mod scenario_texts;
mod serve;
mod slot;
mod timeouts;

pub(crate) use error::WorkerError;
pub(crate) use frame::{read as read_frame, write as write_frame};
pub use location::{Machines, WorkerLocation};
pub(crate) use scenario_texts::{Texts, misread, not_applicable};
pub(crate) use serve::{Command, serve};
pub(crate) use slot::Slot;

/// The argument that makes svclab a worker; the name of its [`Kind`] follows.
pub const WORKER: &str = "worker";

/// The task of a worker.
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
    /// The features that a machine has and lacks.
    Doctor,
    /// None of these: it waits, as PID 1 of the namespace that programs of a shell run in.
    Init,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] =
        [Self::Run, Self::Verify, Self::Mutate, Self::Explain, Self::Diff, Self::Sample, Self::Doctor, Self::Init];

    /// The argument that selects it.
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
