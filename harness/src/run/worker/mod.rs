//! A process that carries out attempts, so that its death ends one test and not the run.
//!
//! Both sides write frames ([`frame`]) to a pipe: the run an [`Order`] and then an [`Answer`] before each test, the worker
//! [`Message`]s. A worker carries out one attempt after the other; it is killed with the thread that started it.

mod frame;
mod message;
mod serve;

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::RunError;
use super::attempt::{Attempt, Results, Stop, Supervisor};
use crate::probe::Progress;
use crate::report::{TestReport, Trouble};
use crate::scenario::Scenario;
use frame::{read, write};
use message::{Answer, Message, Order};

pub use serve::serve;

/// The argument that makes svclab a worker.
pub const WORKER: &str = "worker";

/// A worker that runs.
pub(super) struct Worker {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
}

/// How a worker ended before its attempt.
pub(super) struct Died {
    /// The tests that had ended, without the diagnoses of those that failed.
    pub(super) ended: Vec<TestReport>,
    /// The test that was under way, and since when.
    pub(super) under_way: Option<(String, Instant)>,
    /// How it ended.
    pub(super) trouble: Trouble,
}

impl Worker {
    /// Starts a worker; it ends with the calling thread.
    pub(super) fn start(program: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::NoWorker { source };
        let mut command = Command::new(program);
        command.arg0("svclab").arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self { process, input, output })
    }

    /// Carries out an attempt in this worker.
    ///
    /// # Errors
    ///
    /// Where it has died. It is of no use any more then.
    pub(super) fn carry_out(
        &mut self,
        scenario: &Scenario,
        attempt: &Attempt,
        progress: &Arc<Progress>,
        stop: &mut Stop<'_>,
    ) -> Result<Results, Box<Died>> {
        let (mut ended, mut under_way) = (Vec::new(), None);
        match self.exchange(scenario, attempt, progress, stop, &mut ended, &mut under_way) {
            Ok(results) => Ok(results),
            Err(error) => Err(Box::new(Died { ended, under_way, trouble: self.death(&error).into_trouble() })),
        }
    }

    fn exchange(
        &mut self,
        scenario: &Scenario,
        attempt: &Attempt,
        progress: &Arc<Progress>,
        stop: &mut Stop<'_>,
        ended: &mut Vec<TestReport>,
        under_way: &mut Option<(String, Instant)>,
    ) -> io::Result<Results> {
        let mut counted = progress.elsewhere();
        write(&mut self.input, &Order::new(scenario, attempt))?;
        loop {
            match read(&mut self.output)? {
                Message::Starts(index) => {
                    let test = scenario.tests.get(index).ok_or(io::ErrorKind::InvalidData)?;
                    let may_start = stop.may_start(test);
                    *under_way = may_start.then(|| (test.name.clone(), Instant::now()));
                    write(&mut self.input, &if may_start { Answer::Start } else { Answer::Stop })?;
                }
                Message::Ended(report) => {
                    *under_way = None;
                    stop.ended(&report);
                    ended.push(*report);
                }
                Message::Counts { counted: flows, wanted } => counted.are(flows, wanted),
                Message::Done(tests, error) => return Ok((tests, error)),
            }
        }
    }

    /// How the worker has ended; one that wrote what cannot be read is ended now.
    fn death(&mut self, error: &io::Error) -> RunError {
        if !matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) {
            let _ = self.process.kill();
            return RunError::WorkerDied { how: format!("could not be understood: {error}"), signal: None };
        }
        match self.process.wait() {
            Ok(status) => RunError::WorkerDied { how: words(status), signal: status.signal() },
            Err(error) => RunError::WorkerDied { how: format!("ended: {error}"), signal: None },
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has no lab between two attempts, and the kernel takes down one that it has.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn words(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => match Signal::try_from(number) {
            Ok(signal) => format!("was killed by signal {number} ({signal})"),
            Err(_) => format!("was killed by signal {number}"),
        },
        None => format!("ended early ({status})"),
    }
}
