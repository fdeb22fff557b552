//! The command's side: a process that carries out orders.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WorkerError;
use super::frame::{read, write};
use super::message::Message;
use super::patience::{Late, Patience, Patient, unblock};
use super::{Kind, WORKER};
use crate::probe::Progress;

/// A worker that runs.
pub(super) struct Worker {
    process: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Worker {
    /// Starts a worker; it ends with the calling thread.
    fn start(program: &Path, kind: Kind) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg0("svclab").args([WORKER, kind.as_str()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let worker = Self { process, input, output };
        unblock(&worker.input)?;
        unblock(&worker.output)?;
        Ok(worker)
    }

    /// Has an order carried out. What happens meanwhile goes to `happens`, whose answer, if there is one, goes back.
    fn ask<E: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
        mut happens: impl FnMut(E, &mut Patience) -> io::Result<Option<A>>,
    ) -> Result<R, WorkerError> {
        let mut counted = progress.elsewhere();
        let mut patience = Patience::default();
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

    /// How the worker has ended. One that is late, or wrote what cannot be read, is ended now.
    fn end(&mut self, error: &io::Error) -> WorkerError {
        let late = error.get_ref().and_then(|inner| inner.downcast_ref::<Late>()).copied();
        let has_ended = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
        if !has_ended {
            let _ = self.process.kill();
        }
        match (late, self.process.wait()) {
            (Some(late), _) => WorkerError::Late(late),
            (None, Ok(status)) if has_ended => WorkerError::ended(status),
            (None, Ok(_)) => WorkerError::Died { how: format!("could not be understood: {error}"), signal: None },
            (None, Err(error)) => WorkerError::Died { how: format!("ended: {error}"), signal: None },
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has no lab between two orders, and the kernel takes down one that it has.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The worker of a thread, which is started when it is needed, and again after its death.
pub(crate) struct Slot<'p> {
    program: &'p Path,
    kind: Kind,
    running: Option<Worker>,
}

impl<'p> Slot<'p> {
    pub(crate) fn new(program: &'p Path, kind: Kind) -> Self {
        Self { program, kind, running: None }
    }

    /// Has an order carried out, during which nothing happens that is reported.
    ///
    /// # Errors
    ///
    /// If the worker ends early, or cannot carry out the order.
    pub(crate) fn ask<R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
    ) -> Result<R, WorkerError> {
        self.ask_with(order, progress, |(), _| Ok(None::<()>))
    }

    /// The same, if what happens meanwhile goes to `happens`, whose answer, if there is one, goes back.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) fn ask_with<E: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
        happens: impl FnMut(E, &mut Patience) -> io::Result<Option<A>>,
    ) -> Result<R, WorkerError> {
        let running = self.running.take().map_or_else(|| Worker::start(self.program, self.kind), Ok);
        let mut worker = running.map_err(WorkerError::NotStarted)?;
        let result = worker.ask(order, progress, happens);
        if matches!(result, Ok(_) | Err(WorkerError::Unable(_))) {
            self.running = Some(worker);
        }
        result
    }
}
