//! The process of a machine: qemu, whose standard input and output are the ends of a virtio port.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, ChildStdin, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use super::VmError;
use super::architecture::{LIBRARIES, QEMU};
use super::boot::Boot;
use super::guest::PORT;
use super::log::Log;
use super::userland::PROGRAMS;
use crate::lab::programs;

/// What executes a machine's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// qemu.
    Emulation,
}

/// The time in which a machine on the processor writes to its console: nested virtualization may exist, and hang. Where it
/// works, that takes a tenth of it.
const FIRST_SIGN: Duration = Duration::from_secs(3);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Memory and processors of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Memory in MiB.
    pub memory: u32,
    /// Processors.
    pub processors: u32,
}

/// A machine that runs.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its qemu.
    pub(crate) process: Child,
    /// The ends of its virtio port.
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    /// What its kernel logs.
    pub(crate) log: Log,
}

/// Starts a machine that does what the arguments say; it ends with the calling thread.
///
/// # Errors
///
/// If it cannot be started.
pub(super) fn start(boot: &Boot, size: Size, accelerator: Accelerator, arguments: &[&str]) -> Result<Started, VmError> {
    let log = Log::new().map_err(VmError::NotStarted)?;
    let mut command = programs::command(QEMU).map_err(|error| VmError::NotStarted(io::Error::other(error)))?;
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-nic",
        "none",
        "-machine",
        "q35",
    ]);
    command.args(match accelerator {
        Accelerator::Kvm => ["-accel", "kvm", "-cpu", "host"],
        // Without `erms` a kernel copies and clears words and not bytes, each of which is an iteration that is emulated.
        Accelerator::Emulation => ["-accel", "tcg", "-cpu", "max,erms=off,la57=off"],
    });
    command.args(["-m", &size.memory.to_string(), "-smp", &size.processors.to_string()]);
    command.args(["-kernel", &of_this_process(boot.image.as_raw_fd())]);
    command.args(["-initrd", &of_this_process(boot.initramfs.as_raw_fd())]);
    command.args(["-append", &kernel_command_line(accelerator, arguments)]);
    command.args(["-serial", &format!("file:{}", of_this_process(log.console().as_raw_fd()))]);
    command.args(["-chardev", "stdio,id=worker,signal=off", "-device", "virtio-serial-pci"]);
    command.args(["-device", &format!("virtserialport,chardev=worker,name={PORT}")]);
    command.stderr(log.messages().map_err(VmError::NotStarted)?);
    let started = programs::on_all_cpus(|| programs::with_pipes(&mut command));
    let (process, input, output) = started.map_err(VmError::NotStarted)?;
    Ok(Started { process, input, output, log })
}

/// Starts a machine on the processor if that works, which only a trial shows, and else emulated; says which it is.
///
/// # Errors
///
/// If it cannot be started.
pub(super) fn try_to_start(boot: &Boot, size: Size, arguments: &[&str]) -> Result<(Started, Accelerator), VmError> {
    let mut tried = start(boot, size, Accelerator::Kvm, arguments)?;
    if has_started(&mut tried).map_err(VmError::NotStarted)? {
        return Ok((tried, Accelerator::Kvm));
    }
    let _ = tried.process.kill();
    tried.process.wait().map_err(VmError::NotStarted)?;
    Ok((start(boot, size, Accelerator::Emulation, arguments)?, Accelerator::Emulation))
}

/// Whether a machine's kernel writes to its console in time.
fn has_started(machine: &mut Started) -> io::Result<bool> {
    let begin = Instant::now();
    while machine.process.try_wait()?.is_none() && begin.elapsed() < FIRST_SIGN {
        if machine.log.has_started() {
            return Ok(true);
        }
        thread::sleep(LOOK);
    }
    Ok(false)
}

/// The name under which other processes open a file that this one has open.
fn of_this_process(file: RawFd) -> String {
    format!("/proc/{}/fd/{file}", std::process::id())
}

/// What an emulated kernel does not do, none of which is about packets: clear memory that is written next, test its ciphers and its
/// source of random numbers, and wait for the end of a grace period of RCU longer than it must.
const OMITTED: &str = "init_on_alloc=0 cryptomgr.notests=1 initcall_blacklist=jent_mod_init rcupdate.rcu_expedited=1";

/// The settings of the kernel: an oops, a warning or a hang ends the machine as a panic does, and the log says which it was. What
/// follows `--` are the arguments of the first process. Names with a value that the kernel does not know become its environment; a
/// name without a value would be one more argument.
fn kernel_command_line(accelerator: Accelerator, arguments: &[&str]) -> String {
    let (path, libraries) = (PROGRAMS.join(":"), LIBRARIES.join(":"));
    let reactions = "panic=-1 oops=panic panic_on_warn=1 hung_task_panic=1";
    // Its first line is one that every kernel logs (`linux_banner`, a notice): the sign that it has started.
    // A busy host may leave an emulated timer without interrupts for longer than the kernel waits for the first (`timer_irq_works`).
    let settings = "console=ttyS0 loglevel=6 mitigations=off random.trust_cpu=on no_timer_check";
    let omitted = match accelerator {
        Accelerator::Kvm => "",
        Accelerator::Emulation => OMITTED,
    };
    format!("{settings} {omitted} {reactions} PATH={path} LD_LIBRARY_PATH={libraries} -- {}", arguments.join(" "))
}

/// Whether there is a qemu.
pub(super) fn is_installed() -> bool {
    programs::find(QEMU).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_emulated_kernel_omits_something() {
        let line = |accelerator| kernel_command_line(accelerator, &["worker", "run"]);
        let (own, emulated) = (line(Accelerator::Kvm), line(Accelerator::Emulation));
        assert!(emulated.contains(OMITTED) && own.ends_with(" -- worker run"), "{own}");
        assert_eq!(emulated.replace(OMITTED, ""), own);
    }
}
