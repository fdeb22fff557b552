//! The process of a machine: qemu, whose standard input and output are the ends of a virtio port.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::cache::Boot;
use super::guest::PORT;
use super::log::Log;
use super::userland::{LIBRARIES, PROGRAMS};
use crate::lab::{LabError, programs};

/// The program.
pub(super) const QEMU: &str = "qemu-system-x86_64";

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
pub(super) struct Machine {
    pub(super) process: Child,
    pub(super) log: Log,
}

/// Starts a machine that does what the arguments say; it ends with the calling thread.
///
/// # Errors
///
/// If it cannot be started.
pub(super) fn start(boot: &Boot, size: Size, accelerator: Accelerator, arguments: &[&str]) -> io::Result<Machine> {
    let log = Log::new()?;
    let mut command = programs::command(QEMU).map_err(|error: LabError| io::Error::other(error.to_string()))?;
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
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.messages()?);
    Ok(Machine { process: spawn(command)?, log })
}

fn spawn(mut command: Command) -> io::Result<Child> {
    programs::on_all_cpus(|| command.spawn())
}

/// Starts a machine on the processor if that works, which only a trial shows, and else emulated; says which it is.
///
/// # Errors
///
/// If it cannot be started.
pub(super) fn try_to_start(boot: &Boot, size: Size, arguments: &[&str]) -> io::Result<(Machine, Accelerator)> {
    let mut tried = start(boot, size, Accelerator::Kvm, arguments)?;
    let begin = Instant::now();
    while tried.process.try_wait()?.is_none() && begin.elapsed() < FIRST_SIGN {
        if tried.log.has_started() {
            return Ok((tried, Accelerator::Kvm));
        }
        thread::sleep(LOOK);
    }
    tried.process.kill()?;
    tried.process.wait()?;
    Ok((start(boot, size, Accelerator::Emulation, arguments)?, Accelerator::Emulation))
}

/// The name under which other processes open a file that this one has open.
fn of_this_process(file: RawFd) -> String {
    format!("/proc/{}/fd/{file}", std::process::id())
}

/// What an emulated kernel does not do, none of which is about packets: clear memory that is written next, test its ciphers and its
/// source of random numbers, and wait for the end of a grace period of RCU longer than it must.
const OMITTED: &str = "init_on_alloc=0 cryptomgr.notests=1 initcall_blacklist=jent_mod_init rcupdate.rcu_expedited=1";

/// What the kernel is told: an oops, a warning or a hang ends the machine as a panic does, and the log says which it was. What
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
