//! The worker's own side.

use std::io::{self, Stdin, Stdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WorkerError;
use super::frame::{read, write};
use super::message::{Message, Request};
use crate::environment::Environment;
use crate::kernel;
use crate::probe::Progress;
use crate::report::Trouble;

/// The time between two signs of life.
const TICK: Duration = Duration::from_millis(200);

/// The OOM score adjustment of a worker: if memory is short, the kernel kills it before the command, which can then report it.
const OUT_OF_MEMORY: &str = "500";

/// Executes the orders from standard input until its end, and writes messages to standard output. Both must be the pipes of a command.
///
/// # Errors
///
/// If standard input contains anything else, or standard output cannot be written.
pub(crate) fn serve<O: DeserializeOwned, R: Serialize>(
    carry_out: impl Fn(O, &Arc<Progress>, &Command) -> Result<R, Trouble>,
) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    prctl::set_name(c"svclab-worker")?;
    // Ctrl-C reaches all processes of a terminal; the command ends its workers.
    SigSet::from(Signal::SIGINT).thread_block()?;
    let _ = std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY);
    let progress = Arc::new(Progress::default());
    let command = Command { input: Mutex::new(io::stdin()), output: Arc::new(Mutex::new(io::stdout())) };
    // A worker without a thread for signs of life would be considered dead.
    let mut unable =
        show_life(&progress, &command.output).map_err(|error| WorkerError::NotStarted(error).into_trouble());
    loop {
        let order: O = match command.answer() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Ok(Request::Environment(backend)) => {
                command.say(&Message::<(), _>::Done((Environment::of(backend), kernel::running())))?;
                continue;
            }
            Ok(Request::Order(order)) => order,
            Err(error) => return Err(error),
        };
        let result = match &mut unable {
            Ok(()) => carry_out(order, &progress, &command),
            Err(trouble) => Err(trouble.clone()),
        };
        command.say(&result.map_or_else(Message::<(), R>::Unable, Message::Done))?;
    }
}

/// Gives signs of life, with counts in progress, as long as the process lives.
fn show_life(progress: &Arc<Progress>, output: &Arc<Mutex<Stdout>>) -> io::Result<()> {
    let (progress, output) = (Arc::clone(progress), Arc::clone(output));
    let show = move || {
        loop {
            thread::sleep(TICK);
            let (counted, wanted) = progress.flows();
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            if write(&mut *output, &Message::<(), ()>::Alive { counted, wanted }).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(show).map(drop)
}

/// The command that gives the orders.
pub(crate) struct Command {
    input: Mutex<Stdin>,
    output: Arc<Mutex<Stdout>>,
}

impl Command {
    /// Reads a message of the command: an order, or the answer to an event.
    ///
    /// # Errors
    ///
    /// If the command is gone, or sends anything else.
    pub(crate) fn answer<T: DeserializeOwned>(&self) -> io::Result<T> {
        read(&mut *self.input.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports an event.
    ///
    /// # Errors
    ///
    /// If the command is gone.
    pub(crate) fn event(&self, event: &impl Serialize) -> io::Result<()> {
        self.say(&Message::<_, ()>::Event(event))
    }

    fn say(&self, message: &impl Serialize) -> io::Result<()> {
        write(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner), message)
    }
}
