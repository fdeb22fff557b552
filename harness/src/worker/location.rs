//! Where workers run: processes of this machine, or virtual machines.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use svclab_rules::cluster;

use super::Kind;
use super::error::WorkerError;
use super::message::Request;
use super::process::Worker;
use crate::environment::Environment;
use crate::lab::Backend;
use crate::report::Trouble;
use crate::vm::Vm;

/// Where workers run.
#[derive(Debug, Clone)]
pub enum WorkerLocation {
    /// Processes of this machine, started from this program: svclab, with the arguments [`WORKER`](super::WORKER) and a [`Kind`].
    Process(PathBuf),
    /// Virtual machines in which svclab is PID 1.
    Machines(Arc<Machines>),
}

impl WorkerLocation {
    /// Virtual machines. The first is started now, so that a kernel that does not boot is noticed before it gets an order. If KVM starts its
    /// kernel but it does not respond, kernels are emulated: nested virtualization may fail after the first lines of the log.
    ///
    /// # Errors
    ///
    /// If no machine can be started, or it is not ready in time.
    pub fn boot(vm: Vm, kind: Kind, backend: Backend) -> Result<Self, Trouble> {
        let started = first(&vm, kind, backend).or_else(|error| {
            if vm.is_emulated() == Some(false) && error.may_be_of_accelerator() {
                vm.emulate();
                return first(&vm, kind, backend);
            }
            Err(error)
        });
        let (worker, environment, judging) = started.map_err(WorkerError::into_trouble)?;
        Ok(Self::Machines(Arc::new(Machines { vm, environment, judging, idle: Mutex::new(Some((kind, worker))) })))
    }

    /// Starts a worker, which is killed when the calling thread ends.
    pub(super) fn worker(&self, kind: Kind) -> Result<Worker, WorkerError> {
        match self {
            Self::Process(program) => Worker::process(program, kind),
            Self::Machines(machines) => machines.worker(kind),
        }
    }

    /// The environment of its workers, if it is not this machine's.
    pub fn environment(&self) -> Option<&Environment> {
        match self {
            Self::Process(_) => None,
            Self::Machines(machines) => Some(&machines.environment),
        }
    }

    /// The options of commands that choose its kernel, if it is not this machine's.
    pub(crate) fn options(&self) -> Option<&str> {
        match self {
            Self::Process(_) => None,
            Self::Machines(machines) => Some(machines.vm.options()),
        }
    }

    /// The decisions of the workers' kernel where kernels differ, if it is not this machine's.
    pub fn kernel(&self) -> Option<cluster::Kernel> {
        match self {
            Self::Process(_) => None,
            Self::Machines(machines) => Some(machines.judging),
        }
    }
}

/// Starts the first worker in a virtual machine, and asks it for its environment, and for the decisions of its kernel.
fn first(vm: &Vm, kind: Kind, backend: Backend) -> Result<(Worker, Environment, cluster::Kernel), WorkerError> {
    let mut worker = Worker::in_machine(vm, kind)?;
    let asked = Request::<()>::Environment(backend);
    let (environment, judging) = worker.ask(&asked, &Arc::default(), |(), _| Ok(None::<()>))?;
    Ok((worker, environment, judging))
}

/// Virtual machines with the same kernel.
#[derive(Debug)]
pub struct Machines {
    vm: Vm,
    environment: Environment,
    /// The decisions of this kernel where kernels differ.
    judging: cluster::Kernel,
    /// The first worker, until it is used.
    idle: Mutex<Option<(Kind, Worker)>>,
}

impl Machines {
    /// The virtual machine that they are started from.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// A worker of a kind in a machine that is running already or is started.
    fn worker(&self, kind: Kind) -> Result<Worker, WorkerError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take_if(|(own, _)| *own == kind);
        idle.map_or_else(|| Worker::in_machine(&self.vm, kind), |(_, worker)| Ok(worker))
    }
}
