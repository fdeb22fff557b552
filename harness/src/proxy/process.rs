//! Runs a program confined to a node's network namespace.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, pipe};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::error::ProxyError;
use super::log::Log;
use crate::lab::{Lab, LabError, is_privileged, programs};
use crate::topology::NetnsId;

/// The program of util-linux that confines a program.
const CONFINES: &str = "unshare";
/// Options of `unshare`: PID 1 of the program's namespace is killed with its parent, and the kernel kills all others with PID 1.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child=KILL", "--"];
/// The message of `unshare` if it cannot exit like the program did.
const NOT_KILLED: &str = "unshare: sigprocmask unblock failed: Invalid argument";
/// The script that prepares the namespaces and then executes the program.
const START: &str = include_str!("start.sh");
/// Outside of labs, `/run` is the host's: an empty one is mounted over it.
const EMPTY_RUN: &str = "mount -t tmpfs tmpfs /run || exit 126\n";

/// How long the kernel may take to kill all processes of a program.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a program may take to exit after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepares a call of a program outside of labs, confined as in a lab: in its own namespaces, without a network, and with an empty `/run`.
///
/// # Errors
///
/// [`LabError::Missing`] if `unshare` is not installed.
pub(super) fn outside_of_labs(words: &[&OsStr]) -> Result<Command, LabError> {
    let mut command = programs::command(CONFINES)?;
    if !is_privileged() {
        command.arg("--map-root-user");
    }
    command.arg("--net").args(NAMESPACES).args(["/bin/sh", "-c", &format!("{EMPTY_RUN}{START}"), "svclab"]).args(words);
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/bin:/sbin:/bin";
    command.env_clear().env("PATH", path).env("HOME", "/run").env("TMPDIR", "/run").current_dir("/");
    Ok(command)
}

/// A running program. It is killed when this value is dropped or the thread that started it ends.
pub(crate) struct Process {
    child: Child,
    log: Log,
}

impl Process {
    /// Starts a program from the lab's thread, in a namespace. `path` is its `PATH`; it inherits no other environment variable.
    pub(super) fn start(lab: &Lab, netns: NetnsId, words: &[OsString], path: &OsStr) -> Result<Self, StartError> {
        let (reader, writer) = pipe()?;
        let mut command = programs::command(CONFINES)?;
        command.args(NAMESPACES).args(["/bin/sh", "-c", START, "svclab"]).args(words);
        command.env_clear().env("PATH", path).env("HOME", "/run").env("TMPDIR", "/run").current_dir("/");
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let child = lab.inside(netns, || programs::on_all_cpus(|| command.spawn()))??;
        // The command holds the pipe, too.
        drop(command);
        Ok(Self { child, log: Log::of(reader)? })
    }

    /// How the program exited, if it did.
    pub(super) fn exited(&mut self) -> io::Result<Option<Exit>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            // Its last output has arrived once its last process is gone.
            self.log.is_closed_within(KILL_TIMEOUT);
        }
        Ok(status.map(|status| Exit::of(status, &self.log)))
    }

    /// The end of its log.
    pub(super) fn last_lines(&self) -> String {
        self.log.last_lines(|line| line != NOT_KILLED)
    }

    /// Stops it like a service manager: with SIGTERM, and after some seconds with SIGKILL.
    pub(crate) fn stop(self) {
        let first = self.first_processes();
        // The kernel discards a signal to PID 1 of a namespace that has no handler for it; elsewhere the signal would end the program.
        let handling: Vec<i32> = first.into_iter().filter(|pid| handles_termination(*pid)).collect();
        for pid in &handling {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGTERM);
        }
        if !handling.is_empty() {
            self.log.is_closed_within(TERM_TIMEOUT);
        }
    }

    /// The children of `unshare`: PID 1 of the namespace, while it lives.
    fn first_processes(&self) -> Vec<i32> {
        let parent = self.child.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }
}

/// How a program exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Exited(i32),
    Killed(Signal),
    /// A signal without a name, or another status.
    Other(ExitStatus),
}

impl Exit {
    /// `unshare` exits like the program did, or kills itself with the same signal. For SIGKILL that fails, because its handler cannot be
    /// changed.
    fn of(status: ExitStatus, log: &Log) -> Self {
        let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
        match (status.code(), signal) {
            (Some(1), _) if log.ends_with(NOT_KILLED) => Self::Killed(Signal::SIGKILL),
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Killed(signal),
            (None, None) => Self::Other(status),
        }
    }
}

/// `exited with exit status: 7`, `was killed by signal 9 (SIGKILL)`
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with exit status: {code}"),
            Self::Killed(signal) => write!(f, "was killed by signal {} ({signal})", *signal as i32),
            Self::Other(status) => write!(f, "exited with {status}"),
        }
    }
}

/// Whether a process has a handler for SIGTERM.
fn handles_termination(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    caught >> (Signal::SIGTERM as i32 - 1) & 1 == 1
}

impl Drop for Process {
    fn drop(&mut self) {
        // PID 1 of the namespace is killed before `unshare`, which reaps it: an orphan would wait for the host's `init`.
        let children = self.first_processes();
        for pid in &children {
            // It may have exited in the meantime; its PID stays reserved until `unshare` has reaped it.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        if children.is_empty() || !self.log.is_closed_within(KILL_TIMEOUT) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The reason why a program could not be started.
pub(super) enum StartError {
    Lab(LabError),
    Io(io::Error),
}

impl From<LabError> for StartError {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl StartError {
    /// Converts it to the error of a program on a node.
    pub(super) fn of(self, program: &impl ToString, node: &str) -> ProxyError {
        match self {
            Self::Lab(error) => ProxyError::Lab(error),
            Self::Io(source) => ProxyError::Start { program: program.to_string(), node: node.to_owned(), source },
        }
    }
}
