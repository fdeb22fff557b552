//! Opens a lab that stays up for a subject.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::commands::Command;
use super::completion::complete;
use super::engine::Engine;
use super::init::Init;
use super::line::{Line, line};
use super::places::Places;
use super::reply::{Access, Completion, Printed, Reply, View};
use super::subject::Subject;
use crate::documents::Document;
use crate::lab::{Backend, Lab, LabError, generate_for_lab, with_lab};
use crate::probe::interrupt;
use crate::report::Trouble;
use crate::run::{RunError, guarded};
use crate::scenario::Scenario;
use crate::topology;

/// A lab that is up, for front ends.
#[derive(Clone)]
pub struct Shell {
    scenario: Arc<Scenario>,
    places: Arc<Places>,
    orders: Sender<Order>,
}

/// An order for the lab's thread.
enum Order {
    Execute(Box<Command>, View, Sender<Printed>),
    End,
}

impl Access for Shell {
    fn execute(&self, words: &[String], view: &View) -> Reply {
        match line(words, &view.settings, &self.places.names()) {
            Ok(Line::Empty) => Reply::Printed(Printed::default()),
            Ok(Line::Exit) => Reply::Exit,
            Ok(Line::In(place, task)) => match self.places.open_place(&place) {
                Ok(namespaces) => Reply::PlaceTask(Box::new(namespaces), task),
                Err(printed) => Reply::Printed(printed),
            },
            Ok(Line::Lab(command)) => {
                self.order(command, view).map_or_else(|| Reply::Gone(Printed::gone()), Reply::Printed)
            }
            Err(printed) => Reply::Printed(printed),
        }
    }

    fn complete(&self, line: &str) -> Completion {
        self.places.with_names(|names| complete(line, names))
    }

    fn interrupt(&self) {
        interrupt(true);
    }
}

impl Shell {
    /// The scenario of the lab.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Executes a command in the lab's thread; `None` if the lab has ended.
    fn order(&self, command: Command, view: &View) -> Option<Printed> {
        let (reply, replied) = mpsc::channel();
        self.orders.send(Order::Execute(Box::new(command), view.clone(), reply)).ok()?;
        replied.recv().ok()
    }
}

/// Builds the lab of a subject, passes it to a front end, and returns the front end's result; then the lab ends. The calling process must
/// be privileged: see [`become_privileged`](crate::testing::become_privileged).
///
/// # Errors
///
/// If the lab cannot be built.
pub fn open<T>(subject: Subject, backend: Backend, front: impl FnOnce(&Shell) -> T) -> Result<T, Trouble> {
    let (orders, ordered) = mpsc::channel();
    let (ready, opened) = mpsc::channel();
    let scenario = Arc::new(subject.scenario.clone());
    let lab = move || guarded(|| built(subject, backend, &ready, ordered));
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, lab);
        let lab = started.map_err(|source| RunError::from(LabError::Thread { source }).into_trouble())?;
        let opened = opened.recv();
        let result = opened.ok().map(|places| front(&Shell { scenario, places, orders: orders.clone() }));
        let _ = orders.send(Order::End);
        let ended = lab.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(RunError::into_trouble)?;
        result.ok_or_else(|| RunError::Panic("the lab ended before it was ready".to_owned()).into_trouble())
    })
}

/// Builds a lab, and executes orders in it.
fn built(
    subject: Subject,
    backend: Backend,
    ready: &Sender<Arc<Places>>,
    ordered: Receiver<Order>,
) -> Result<(), RunError> {
    let init = Init::start().map_err(no_init)?;
    let documents = generate_for_lab(&subject.scenario, &subject.cluster, backend)?;
    let installed = documents.clone();
    let plan = topology::with_stacks(topology::plan_at(&subject.scenario, &subject.cluster));
    let served = move |lab: &mut Lab| serve(lab, subject, installed, &init, ready, ordered);
    with_lab(&plan, &documents, backend, served)?
}

fn no_init(source: io::Error) -> LabError {
    LabError::Sandbox { what: "creating a PID namespace", source }
}

fn serve(
    lab: &mut Lab,
    subject: Subject,
    documents: Vec<Document>,
    init: &Init,
    ready: &Sender<Arc<Places>>,
    ordered: Receiver<Order>,
) -> Result<(), RunError> {
    let pids = init.pids().map_err(no_init)?;
    let places = Arc::new(Places::of(lab, &subject.cluster, pids)?);
    lab.restore(&subject.scenario.connections)?;
    let mut engine = Engine::start(lab, subject, documents, Arc::clone(&places))?;
    // Without a front end there is nothing to do.
    if ready.send(places).is_err() {
        return Ok(());
    }
    while let Ok(Order::Execute(command, view, reply)) = ordered.recv() {
        // A front end that has stopped waiting does not need the result.
        let _ = reply.send(command.execute(&mut engine, &view));
    }
    Ok(())
}
