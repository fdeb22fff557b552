//! The machine's own side: svclab as the first process of a kernel.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::kmod::init_module;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::{dup2_stdin, dup2_stdout, getpid};

use crate::kernel::CONNECTIONS;
use crate::text::reason;

/// The name of the virtio port that is the way to svclab.
pub(super) const PORT: &str = "svclab.worker";

/// What a line on the console starts with that says why a machine is not ready.
pub(super) const COMPLAINT: &str = "svclab: the machine is not ready: ";

/// The folder of modules, and the file that has their names in the order in which they are loaded.
pub(super) const MODULES: &str = "/svclab/modules";
pub(super) const ORDER: &str = "/svclab/modules/order";

/// What ends a module that is signed, after its signature.
const SIGNED: &[u8] = b"~Module signature appended~\n";
/// How a kernel rejects modules without a signature, if it does: since 5.4, before, and when it is locked down.
const UNSIGNED: [Errno; 3] = [Errno::EKEYREJECTED, Errno::ENOKEY, Errno::EPERM];

/// The time in which the port appears, once its driver is loaded.
const PORT_LIMIT: Duration = Duration::from_secs(30);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The settings of how many connections the kernel remembers, and of how many hash chains it finds them in: in the few chains of
/// a small machine each is long, and kernels from 5.15 on refuse a connection whose chain is too long (`chaintoolong`).
const CONNECTION_SETTINGS: [&str; 2] =
    ["/proc/sys/net/netfilter/nf_conntrack_max", "/sys/module/nf_conntrack/parameters/hashsize"];

/// Whether this process is the first of a machine's kernel.
pub fn is_guest() -> bool {
    getpid().as_raw() == 1 && Path::new(ORDER).is_file()
}

/// Makes the machine ready: file systems, modules, and the port, which becomes standard input and output. Where that fails, the
/// machine ends.
pub fn enter() {
    if let Err(why) = try_to_enter() {
        complain(&why);
        leave();
    }
}

/// Ends the machine.
pub fn leave() {
    // qemu does not start it again.
    let _ = reboot(RebootMode::RB_AUTOBOOT);
}

fn complain(why: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{COMPLAINT}{why}");
}

fn try_to_enter() -> Result<(), String> {
    for (kind, folder) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"), ("tmpfs", "/tmp")]
    {
        mount(Some(kind), folder, Some(kind), MsFlags::empty(), None::<&str>)
            .map_err(|errno| format!("mounting {kind} on {folder}: {}", said(errno)))?;
    }
    load_modules()?;
    // A kernel without connection tracking fails where that is needed, with a better message.
    CONNECTION_SETTINGS.iter().for_each(|file| _ = fs::write(file, CONNECTIONS.to_string()));
    let port = port().map_err(|error| format!("opening the virtio port: {}", reason(error)))?;
    dup2_stdin(&port).and_then(|()| dup2_stdout(&port)).map_err(said)
}

/// The system's message for a number.
fn said(errno: Errno) -> String {
    reason(io::Error::from(errno))
}

/// Loads the modules; those that the kernel has already, or cannot have on this machine, are left out.
fn load_modules() -> Result<(), String> {
    let order = fs::read_to_string(ORDER).map_err(|error| format!("{ORDER}: {}", reason(error)))?;
    for name in order.lines() {
        let failed = |why: String| format!("loading the module {name}: {why}");
        let module = fs::read(Path::new(MODULES).join(name)).map_err(|error| failed(reason(error)))?;
        match load(&module) {
            Ok(()) | Err(Errno::EEXIST | Errno::ENODEV) => {}
            // Not a file: the kernel has already read it.
            Err(Errno::ENOENT) => return Err(failed("the kernel lacks a symbol that it uses".to_owned())),
            Err(errno) => return Err(failed(said(errno))),
        }
    }
    Ok(())
}

/// Loads a module, without its signature where the kernel takes it so: checking that is most of what loading costs an emulated kernel.
fn load(module: &[u8]) -> Result<(), Errno> {
    let unsigned = module.strip_suffix(SIGNED).unwrap_or(module);
    match init_module(unsigned, c"") {
        Err(error) if UNSIGNED.contains(&error) && unsigned.len() < module.len() => init_module(module, c""),
        loaded => loaded,
    }
}

/// Opens the port when both sides of it are there.
fn port() -> io::Result<File> {
    let begin = Instant::now();
    loop {
        let port = device().map(|device| OpenOptions::new().read(true).write(true).open(device)).transpose()?;
        let missing = match port {
            Some(port) if !is_hung_up(&port)? => return Ok(port),
            Some(_) => io::Error::other("the host's end is closed"),
            None => io::ErrorKind::NotFound.into(),
        };
        if begin.elapsed() >= PORT_LIMIT {
            return Err(missing);
        }
        thread::sleep(LOOK);
    }
}

fn device() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let is_own =
        |port: &fs::DirEntry| fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT);
    ports.into_iter().find(is_own).map(|port| Path::new("/dev").join(port.file_name())).filter(|device| device.exists())
}

fn is_hung_up(port: &File) -> io::Result<bool> {
    let mut polled = [PollFd::new(port.as_fd(), PollFlags::POLLOUT)];
    poll(&mut polled, PollTimeout::ZERO)?;
    Ok(polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_named_by_its_message() {
        assert_eq!(said(Errno::ENOEXEC), "exec format error");
    }
}
