//! Options that choose the kernels that labs run on.

use std::path::{Path, PathBuf};

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use super::lab_args::{OWN_PROGRAM, own_processes, prepare, report_failure, wait_for_signals};
use super::matrix::OnKernel;
use svclab::environment::Environment;
use svclab::proxy::Programs;
use svclab::text::printable;
use svclab::vm::{Size, Vm};
use svclab::worker::{Kind, WorkerLocation};
use svclab::{Backend, Goal};

/// The option that chooses a kernel.
pub(super) const KERNEL: &str = "kernel";

/// Options of commands that build labs.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KernelArgs {
    /// Build labs on another kernel, in a virtual machine: a vmlinuz, a folder or a package (.deb) with one, or an installed version.
    ///
    /// Its modules are searched for next to it and under /lib/modules. Requires QEMU, but no privileges.
    /// With several kernels, the results that differ between them come first.
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<PathBuf>,
    /// With --kernel: the folder, or container image (`docker save`, OCI), whose iptables, nft and conntrack are used [default: this
    /// machine's]
    #[arg(long, value_name = "DIR|IMAGE.tar", requires = "kernel")]
    userland: Option<PathBuf>,
    /// With --kernel: the memory of each virtual machine, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(128..=65_536), requires = "kernel")]
    kernel_memory: u32,
    /// With --kernel: the number of CPUs of each virtual machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), requires = "kernel")]
    kernel_cpus: u32,
}

impl KernelArgs {
    /// Rejects a kernel if programs write the rules: they are files on this machine, not in the virtual one.
    pub(super) fn without(&self, programs: Option<&Programs>) -> Result<(), Failure> {
        if self.kernel.is_empty() || programs.is_none() {
            return Ok(());
        }
        let message = "a kube-proxy runs only on this machine's kernel, not on that of --kernel";
        Err(Failure::new(message, "Leave out --kernel, or the program; the generator's rules work on every kernel."))
    }

    /// Rejects a kernel if no lab is built: the option would have no effect.
    pub(super) fn only_with_labs(&self, option: &str) -> Result<(), Failure> {
        if self.kernel.is_empty() {
            return Ok(());
        }
        Err(Failure::new("--kernel has no effect: no lab is built", format!("Add {option}, or leave out --kernel.")))
    }

    /// Prepares where labs are built: this machine, or another kernel, whose first virtual machine is started.
    pub(super) fn location(&self, kind: Kind, backend: Backend, console: &Console) -> Result<WorkerLocation, Exit> {
        match self.other(kind, backend, console)? {
            Some(location) => Ok(location),
            None => prepare(console).map(|()| own_processes()),
        }
    }

    /// Returns whether there are several kernels.
    pub(super) fn has_several(&self) -> bool {
        self.kernel.len() > 1
    }

    /// Returns whether results of several kernels are compared; that is rejected unless the result is text.
    pub(super) fn comparing(&self, is_text: bool) -> Result<bool, Failure> {
        if is_text || !self.has_several() {
            return Ok(self.has_several());
        }
        let message = "several kernels can only be compared as text; reports and files cover one kernel";
        Err(Failure::new(message, "Leave out --format and options that write files, or name one kernel."))
    }

    /// Runs a command on each of several kernels, one after the other. A kernel that does not start is reported, and the others go on; one
    /// that is not found is an error before the first starts.
    pub(super) fn on_each<T>(
        &self,
        kind: Kind,
        backend: Backend,
        console: &Console,
        mut work: impl FnMut(WorkerLocation) -> Result<T, Exit>,
    ) -> Result<Vec<OnKernel<T>>, Exit> {
        wait_for_signals(console)?;
        let found = self.kernel.iter().map(|kernel| self.found(kernel, console)).collect::<Result<Vec<Vm>, Exit>>()?;
        let names = names(found.iter().map(Vm::release).zip(&self.kernel));
        let mut is_said = false;
        let on_one = |(vm, name): (Vm, String)| {
            let started = WorkerLocation::boot(vm, kind, backend).map_err(|mut failed| {
                failed.message.insert_str(0, &format!("kernel {name}: "));
                report_failure(&failed, console)
            });
            let result = started.and_then(|location| {
                if !std::mem::replace(&mut is_said, true) {
                    say_how_fast(&location, kind, console);
                }
                work(location)
            });
            OnKernel { name, result }
        };
        Ok(found.into_iter().zip(names).map(on_one).collect())
    }

    /// Rejects a kernel if two inputs with rules are treated as one cluster: a worker reads each separately.
    pub(super) fn only_with_scenarios(&self) -> Result<(), Failure> {
        if self.kernel.is_empty() {
            return Ok(());
        }
        let message = "a lab on another kernel is built from one input, not from two with rules";
        Err(Failure::new(message, "Give scenarios or Kubernetes objects, or leave out --kernel."))
    }

    /// Returns the kernels before and after, with the first virtual machine of each started, if any are chosen; a single one is used for
    /// both.
    pub(super) fn sides(
        &self,
        kind: Kind,
        backend: Backend,
        console: &Console,
    ) -> Result<Option<[WorkerLocation; 2]>, Exit> {
        let [before, after] = match self.kernel.as_slice() {
            [] => return Ok(None),
            [kernel] => [kernel, kernel],
            [before, after] => [before, after],
            _ => {
                console.complain("a comparison has two sides\nhelp: Give --kernel once for both sides, or twice.");
                return Err(Exit::Input);
            }
        };
        wait_for_signals(console)?;
        let first = self.started(before, kind, backend, console)?;
        say_how_fast(&first, kind, console);
        let second = if before == after { first.clone() } else { self.started(after, kind, backend, console)? };
        Ok(Some([first, second]))
    }

    /// Returns another kernel, with its first virtual machine started, if one is chosen.
    pub(super) fn other(
        &self,
        kind: Kind,
        backend: Backend,
        console: &Console,
    ) -> Result<Option<WorkerLocation>, Exit> {
        match self.kernel.as_slice() {
            [] => Ok(None),
            [kernel] => {
                wait_for_signals(console)?;
                let location = self.started(kernel, kind, backend, console)?;
                say_how_fast(&location, kind, console);
                Ok(Some(location))
            }
            _ => {
                console.complain("this command takes only one kernel\nhelp: Give --kernel once.");
                Err(Exit::Input)
            }
        }
    }

    /// Returns a kernel with its first virtual machine started.
    fn started(&self, kernel: &Path, kind: Kind, backend: Backend, console: &Console) -> Result<WorkerLocation, Exit> {
        let vm = self.found(kernel, console)?;
        WorkerLocation::boot(vm, kind, backend).map_err(|failed| report_failure(&failed, console))
    }

    /// Prepares a kernel: finds it, and builds what its virtual machines boot from.
    fn found(&self, kernel: &Path, console: &Console) -> Result<Vm, Exit> {
        let size = Size { memory: self.kernel_memory, processors: self.kernel_cpus };
        let vm = Vm::prepare(kernel, self.userland.as_deref(), size, OWN_PROGRAM.as_ref());
        vm.map_err(|error| report_failure(&error.into(), console))
    }
}

/// Returns the names of kernels: their releases, and where several have the same, also the kernel as it was given.
fn names<'k>(kernels: impl Iterator<Item = (&'k str, &'k PathBuf)>) -> Vec<String> {
    let all: Vec<(&str, &PathBuf)> = kernels.collect();
    let is_shared = |release: &str| all.iter().filter(|(other, _)| *other == release).count() > 1;
    let name = |&(release, given): &(&str, &PathBuf)| {
        if is_shared(release) { format!("{release} ({})", printable(given)) } else { release.to_owned() }
    };
    all.iter().map(name).collect()
}

/// Starts the text of a result with the kernel that it was found on, if that is not this machine's.
pub(super) fn head(location: Option<&WorkerLocation>, console: &Console) {
    if let Some(environment) = location.and_then(WorkerLocation::environment) {
        console.head(format!("kernel {}", environment.kernel));
    }
}

/// Reports if kernels are emulated.
fn say_how_fast(location: &WorkerLocation, kind: Kind, console: &Console) {
    if is_emulated(location) {
        let counted = match kind {
            Kind::Run => Some("`flows: auto` counts fewer"),
            Kind::Sample => Some("`--sample auto` sends fewer"),
            _ => None,
        };
        let counting = counted.map_or_else(
            || ", which takes longer".to_owned(),
            |counted| format!(": {counted}, and shows a bias of {:.0} %", 100.0 * goal(location).relative_bias),
        );
        console.note(format!("KVM does not work here, so kernels are emulated{counting}"));
    }
}

/// The factor by which the detectable bias is larger on an emulated kernel: detecting it takes a tenth of the flows.
const EMULATED_BIAS: f64 = 3.0;

/// Returns what balance tests must detect there.
pub(super) fn goal(location: &WorkerLocation) -> Goal {
    let goal = Goal::default();
    if is_emulated(location) { Goal { relative_bias: EMULATED_BIAS * goal.relative_bias, ..goal } } else { goal }
}

fn is_emulated(location: &WorkerLocation) -> bool {
    matches!(location, WorkerLocation::Machines(machines) if machines.vm().is_emulated() == Some(true))
}

/// Returns the environment of results: that of the labs, or this machine.
pub(super) fn environment(location: Option<&WorkerLocation>, backend: Backend) -> Environment {
    location.and_then(WorkerLocation::environment).cloned().unwrap_or_else(|| Environment::of(backend))
}
