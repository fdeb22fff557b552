//! PID 1 of the namespace that programs of a shell run in: when it exits, the kernel kills them all.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

use crate::worker::{Kind, WORKER};

/// PID 1 of a namespace, held by its parent.
pub(super) struct Init {
    pids: OwnedFd,
    /// Its parent is a thread that ends when this is dropped.
    _lives: Sender<()>,
}

impl Init {
    /// Starts the process: svclab again, as [`serve`].
    ///
    /// # Errors
    ///
    /// If the kernel cannot create a PID namespace.
    pub(super) fn start() -> io::Result<Self> {
        let (lives, ends) = mpsc::channel::<()>();
        let (started, ready) = mpsc::channel();
        // Only children of the thread that has unshared its PID namespace are in the new one, so this thread must start the process.
        let parent = move || {
            let mut process = None;
            let pids = start().and_then(|child| {
                let pid = process.insert(child).id();
                Ok(File::open(format!("/proc/{pid}/ns/pid"))?.into())
            });
            let _ = started.send(pids);
            let _ = ends.recv();
            if let Some(mut process) = process {
                let _ = process.kill().and_then(|()| process.wait());
            }
        };
        thread::Builder::new().name("init".to_owned()).spawn(parent)?;
        let pids = ready.recv().map_err(io::Error::other)??;
        Ok(Self { pids, _lives: lives })
    }

    /// The PID namespace.
    ///
    /// # Errors
    ///
    /// If no file descriptor is free.
    pub(super) fn pids(&self) -> io::Result<OwnedFd> {
        self.pids.try_clone()
    }
}

fn start() -> io::Result<Child> {
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("svclab").args([WORKER, Kind::Init.as_str()]);
    // Its closed input shows it if svclab has exited before the parent-death signal was set.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

/// Reaps orphaned processes until standard input is closed.
///
/// # Errors
///
/// If standard input cannot be read, or a system call of this process fails.
pub fn serve() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    prctl::set_name(c"svclab-init")?;
    let children = SigSet::from(Signal::SIGCHLD);
    children.thread_block()?;
    let reap = move || {
        while children.wait().is_ok() {
            while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
        }
    };
    thread::Builder::new().spawn(reap)?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
