//! The kernel that this process runs on.

use std::path::Path;

use nix::sys::utsname::uname;
use svclab_rules::cluster::Kernel;

/// What a kernel that handles SCTP has.
const SCTP: &str = "/proc/net/sctp";

/// The kernel that this process runs on: the one that judges, where labs are built.
pub(crate) fn running() -> Kernel {
    let Ok(name) = uname() else { return Kernel::default() };
    let kernel = Kernel::of(&name.release().to_string_lossy(), &name.version().to_string_lossy());
    kernel.with_sctp(Path::new(SCTP).exists())
}
