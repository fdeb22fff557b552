//! The kernel that this process runs on.

use std::fs;
use std::path::Path;

use nix::sys::utsname::uname;
use svclab_rules::cluster::Kernel;

/// Connections that a kernel should remember (`nf_conntrack_max`): many are open when balance is measured.
pub(crate) const CONNECTIONS: u64 = 262_144;

/// What a kernel that handles SCTP has.
const SCTP: &str = "/proc/net/sctp";
/// Where Ubuntu's kernels name the version of their sources: `Ubuntu 5.15.0-122.132-generic 5.15.163`.
const SIGNATURE: &str = "/proc/version_signature";

/// The kernel that this process runs on: the one that judges, where labs are built.
pub(crate) fn running() -> Kernel {
    let Ok(name) = uname() else { return Kernel::default() };
    let signature = fs::read_to_string(SIGNATURE).unwrap_or_default();
    let build = format!("{} {signature}", name.version().to_string_lossy());
    let kernel = Kernel::of(&name.release().to_string_lossy(), &build);
    kernel.with_sctp(Path::new(SCTP).exists())
}
