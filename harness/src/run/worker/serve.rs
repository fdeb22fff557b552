//! The worker's own side.

use std::io::{self, Stdin, Stdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

use super::frame::{read, write};
use super::message::{Answer, Message, Order};
use crate::probe::Progress;
use crate::report::{Cause, TestReport, Trouble};
use crate::run::attempt::{Results, Supervisor};
use crate::run::here;
use crate::scenario::Test;

/// How often counts in progress are reported.
const TICK: Duration = Duration::from_millis(200);

/// How willingly the kernel ends a worker where memory is short: before the run, which reports it then.
const OUT_OF_MEMORY: &str = "500";

/// Carries out the attempts that standard input asks for, until that ends, and writes what happens to standard output. Both must be the
/// pipes of a run.
///
/// # Errors
///
/// Where standard input says anything else, or standard output cannot be written.
pub fn serve() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    prctl::set_name(c"svclab-worker")?;
    // Ctrl-C reaches all processes of a terminal; the run ends its workers.
    SigSet::from(Signal::SIGINT).thread_block()?;
    let _ = std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY);
    let (input, output) = (Mutex::new(io::stdin()), Arc::new(Mutex::new(io::stdout())));
    let progress = Arc::new(Progress::default());
    report_counts(&progress, &output);
    let pipe = Pipe { input, output };
    loop {
        let order: Order<'_> = match pipe.read() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            order => order?,
        };
        let (tests, error) = carry_out(&order, &progress, &pipe);
        pipe.write(&Message::Done(tests, error))?;
    }
}

fn carry_out(order: &Order<'_>, progress: &Arc<Progress>, pipe: &Pipe) -> Results {
    match order.scenario() {
        Ok(scenario) => {
            let names = scenario.tests.iter().map(|test| test.name.clone()).collect();
            here::carry_out(&scenario, &order.attempt, progress, &mut Run { pipe, names })
        }
        Err(errors) => {
            let message = format!("a worker read the scenario otherwise than the run: {errors}");
            (Vec::new(), Some(Trouble { cause: Cause::Internal, message, help: None, span: None }))
        }
    }
}

/// Reports counts in progress whenever they have changed, as long as the process lives.
fn report_counts(progress: &Arc<Progress>, output: &Arc<Mutex<Stdout>>) {
    let (progress, output) = (Arc::clone(progress), Arc::clone(output));
    let report = move || {
        let mut last = (0, 0);
        loop {
            thread::sleep(TICK);
            let (counted, wanted) = progress.flows();
            if last != (counted, wanted) {
                last = (counted, wanted);
                let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                if write(&mut *output, &Message::Counts { counted, wanted }).is_err() {
                    return;
                }
            }
        }
    };
    // Without a thread no progress is shown.
    let _ = thread::Builder::new().spawn(report);
}

/// The pipes of the run.
struct Pipe {
    input: Mutex<Stdin>,
    output: Arc<Mutex<Stdout>>,
}

impl Pipe {
    fn read<T: serde::de::DeserializeOwned>(&self) -> io::Result<T> {
        read(&mut *self.input.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, message: &Message) -> io::Result<()> {
        write(&mut *self.output.lock().unwrap_or_else(PoisonError::into_inner), message)
    }
}

/// The run, which decides whether tests start.
struct Run<'p> {
    pipe: &'p Pipe,
    /// The names of all tests, in order.
    names: Vec<String>,
}

impl Supervisor for Run<'_> {
    fn may_start(&mut self, test: &Test) -> bool {
        let index = self.names.iter().position(|name| *name == test.name).unwrap_or_default();
        let asked = self.pipe.write(&Message::Starts(index)).and_then(|()| self.pipe.read());
        // Without a run there is no one who wants the test.
        asked.is_ok_and(|answer| matches!(answer, Answer::Start))
    }

    fn ended(&mut self, report: &TestReport) {
        // A run that is gone is noticed at the next test.
        let _ = self.pipe.write(&Message::Ended(Box::new(report.clone())));
    }
}
