//! Isolation from the host: privileges, and a mount namespace with its own `/run`.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{getegid, geteuid};

use super::LabError;

/// The folder of named network namespaces, inside the private `/run`.
pub(super) const NAMESPACES: &str = "/run/netns";

/// Gives the process the privileges that a lab needs, with a user namespace unless it is root already, and raises its limit on open files.
///
/// Must be called while the process has a single thread: the kernel does not let a multithreaded process create a user
/// namespace. Calling it again does nothing.
///
/// # Errors
///
/// [`LabError::Privileges`] if user namespaces are forbidden.
pub(crate) fn become_privileged() -> Result<(), LabError> {
    let error = |what| move |source| LabError::Privileges { what, source };
    allow_open_files();
    if is_privileged() {
        return Ok(());
    }
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from).map_err(error("creating a user namespace"))?;
    fs::write("/proc/self/setgroups", "deny").map_err(error("writing /proc/self/setgroups"))?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(error("writing /proc/self/uid_map"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(error("writing /proc/self/gid_map"))?;
    Ok(())
}

/// Raises the soft limit of open files, 1,024 on most systems, to the hard one: a lab has more than one for each namespace.
fn allow_open_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A small lab works with the old limit; a large one fails with the kernel's own message.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Whether the process may create network and mount namespaces.
pub(crate) fn is_privileged() -> bool {
    const CAP_NET_ADMIN: u32 = 12;
    const CAP_NET_RAW: u32 = 13;
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    [CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN].iter().all(|cap| bits & (1 << cap) != 0)
}

/// Moves the calling thread into a mount namespace with an empty `/run` and into an empty network namespace; both end
/// with the lab.
///
/// Named namespaces and the lock file of iptables-legacy are in `/run`, so no part of a lab is ever on the host. And
/// the thread is never in the host's network namespace, which an error in svclab therefore cannot affect.
pub(super) fn leave_host() -> Result<(), LabError> {
    let error = |what| move |source| LabError::Sandbox { what, source };
    let errno = |what| move |errno: Errno| LabError::Sandbox { what, source: errno.into() };
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).map_err(errno("creating a mount namespace"))?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(errno("making mounts private"))?;
    mount(Some("svclab"), "/run", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=755"))
        .map_err(errno("mounting a tmpfs over /run"))?;
    fs::create_dir(NAMESPACES).map_err(error("making /run/netns"))
}
