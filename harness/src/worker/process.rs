//! The command's side of a worker process.

use std::io;
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WorkerError;
use super::frame::{read, write};
use super::message::Message;
use super::timeouts::{BOOT, Patient, SILENCE, TimeoutError, WorkerTimeout, unblock};
use super::{Kind, WORKER};
use crate::lab::programs;
use crate::probe::Progress;
use crate::vm::{Log, Started, Vm};

/// A running worker.
#[derive(Debug)]
pub(super) struct Worker {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// The log of its virtual machine, if it is in one.
    log: Option<Log>,
    /// The maximum time until its next sign of life.
    silence: Duration,
}

impl Worker {
    /// Starts a virtual machine with a worker, which is killed when the calling thread ends.
    pub(super) fn in_machine(vm: &Vm, kind: Kind) -> Result<Self, WorkerError> {
        let Started { process, input, output, log } = vm.start(&[WORKER, kind.as_str()])?;
        let silence = if vm.is_emulated() == Some(true) { BOOT } else { SILENCE };
        Self { process, input, output, log: Some(log), silence }.unblocked()
    }

    /// Starts a worker as a process of this machine, which is killed when the calling thread ends.
    pub(super) fn process(program: &Path, kind: Kind) -> Result<Self, WorkerError> {
        let mut command = Command::new(program);
        command.arg0("svclab").args([WORKER, kind.as_str()]);
        let (process, input, output) = programs::with_pipes(&mut command).map_err(WorkerError::NotStarted)?;
        Self { process, input, output, log: None, silence: SILENCE }.unblocked()
    }

    fn unblocked(self) -> Result<Self, WorkerError> {
        unblock(&self.input).and_then(|()| unblock(&self.output)).map_err(WorkerError::NotStarted)?;
        Ok(self)
    }

    /// Sends an order, and waits for its result. Events in the meantime are passed to `happens`, whose answer, if there
    /// is one, is sent back.
    pub(super) fn ask<E: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
        mut happens: impl FnMut(E, &mut WorkerTimeout) -> io::Result<Option<A>>,
    ) -> Result<R, WorkerError> {
        let mut counted = progress.elsewhere();
        let mut patience = WorkerTimeout::with(self.process.id(), mem::replace(&mut self.silence, SILENCE));
        let mut exchange = || -> io::Result<Result<R, WorkerError>> {
            write(&mut Patient { pipe: &mut self.input, patience: &mut patience }, order)?;
            loop {
                let said = read(&mut Patient { pipe: &mut self.output, patience: &mut patience })?;
                patience.is_alive();
                match said {
                    Message::Alive { counted: flows, wanted } => counted.are(flows, wanted),
                    Message::Event(event) => {
                        if let Some(answer) = happens(event, &mut patience)? {
                            write(&mut Patient { pipe: &mut self.input, patience: &mut patience }, &answer)?;
                        }
                    }
                    Message::Done(result) => return Ok(Ok(result)),
                    Message::Unable(trouble) => return Ok(Err(WorkerError::Unable(Box::new(trouble)))),
                }
            }
        };
        exchange().unwrap_or_else(|error| Err(self.end(&error)))
    }

    /// The error of a worker that failed. One that is late, or sent an invalid message, is killed now.
    fn end(&mut self, error: &io::Error) -> WorkerError {
        let late = error.get_ref().and_then(|inner| inner.downcast_ref::<TimeoutError>()).copied();
        let has_ended = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
        if !has_ended {
            let _ = self.process.kill();
        }
        let status = self.process.wait();
        if let Some(log) = &self.log
            && !matches!(late, Some(TimeoutError::Overdue { .. }))
        {
            return WorkerError::Machine(match late {
                Some(TimeoutError::Silent(time)) => log.silence(time),
                _ => log.ending(status.ok().and_then(|status| status.signal())),
            });
        }
        match (late, status) {
            (Some(late), _) => WorkerError::TimeoutError(late),
            (None, Ok(status)) if has_ended => WorkerError::ended(status),
            (None, Ok(_)) => WorkerError::Died { how: format!("sent an invalid message: {error}"), signal: None },
            (None, Err(error)) => WorkerError::Died { how: format!("ended: {error}"), signal: None },
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Between two orders it has no lab, and the kernel would remove any other.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
