//! Where workers are: processes of this machine, or machines with a kernel of their own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use svclab_rules::cluster;

use super::Kind;
use super::error::WorkerError;
use super::message::Asked;
use super::process::Worker;
use crate::environment::Environment;
use crate::lab::Backend;
use crate::report::Trouble;
use crate::vm::Vm;

/// Where workers are.
#[derive(Debug, Clone)]
pub enum Home {
    /// Processes of this machine, of a program: svclab, which serves with the argument [`WORKER`](super::WORKER) and a [`Kind`].
    Process(PathBuf),
    /// Machines with a kernel, in which svclab is the first process.
    Machines(Arc<Machines>),
}

impl Home {
    /// Machines with a kernel; the first is started now, so that a kernel that does not start is found before anything is
    /// asked of it.
    ///
    /// # Errors
    ///
    /// If no machine can be started, or it is not ready in time.
    pub fn boot(vm: Vm, kind: Kind, backend: Backend) -> Result<Self, Trouble> {
        let mut worker = Worker::in_machine(&vm, kind).map_err(WorkerError::into_trouble)?;
        let asked = Asked::<()>::Environment(backend);
        let said = worker.ask(&asked, &Arc::default(), |(), _| Ok(None::<()>));
        let (environment, judging) = said.map_err(WorkerError::into_trouble)?;
        Ok(Self::Machines(Arc::new(Machines { vm, environment, judging, idle: Mutex::new(Some((kind, worker))) })))
    }

    /// Starts a worker; it ends with the calling thread.
    pub(super) fn worker(&self, kind: Kind) -> Result<Worker, WorkerError> {
        match self {
            Self::Process(program) => Worker::process(program, kind),
            Self::Machines(machines) => machines.worker(kind),
        }
    }

    /// What the results of its workers depend on, where that is not this machine.
    pub fn environment(&self) -> Option<&Environment> {
        match self {
            Self::Process(_) => None,
            Self::Machines(machines) => Some(&machines.environment),
        }
    }

    /// How the kernel there decides where kernels differ, if it is not this machine's.
    pub fn kernel(&self) -> Option<cluster::Kernel> {
        match self {
            Self::Process(_) => None,
            Self::Machines(machines) => Some(machines.judging),
        }
    }
}

/// Machines with one kernel.
#[derive(Debug)]
pub struct Machines {
    vm: Vm,
    environment: Environment,
    /// How it decides where kernels differ.
    judging: cluster::Kernel,
    /// The first worker, until it is needed.
    idle: Mutex<Option<(Kind, Worker)>>,
}

impl Machines {
    /// What they start from.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// A worker of a kind in a machine that runs already, or that is started.
    fn worker(&self, kind: Kind) -> Result<Worker, WorkerError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(own, _)| *own == kind);
        idle.map_or_else(|| Worker::in_machine(&self.vm, kind), |(_, worker)| Ok(worker))
    }
}
