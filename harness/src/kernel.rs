//! The kernel that this process runs on.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::utsname::uname;
use svclab_rules::cluster::Kernel;

/// The size of the conntrack table that a kernel should have (`nf_conntrack_max`): many connections are open when balance is measured.
pub(crate) const CONNECTIONS: u64 = 262_144;

/// The file in which a kernel names its CPUs, and qemu's name for an emulated one: `model name : QEMU TCG CPU version 2.5+`.
const PROCESSORS: &str = "/proc/cpuinfo";
const EMULATED: &str = "QEMU TCG CPU";
/// An upper bound on how many times slower an emulated CPU is.
const SLOWNESS: u32 = 10;

/// The folder that a kernel with SCTP support has.
const SCTP: &str = "/proc/net/sctp";
/// The file in which Ubuntu's kernels name their upstream version: `Ubuntu 5.15.0-122.132-generic 5.15.163`.
const SIGNATURE: &str = "/proc/version_signature";

/// The kernel that this process runs on, which judges if labs are built here.
pub(crate) fn running() -> Kernel {
    let Ok(name) = uname() else { return Kernel::default() };
    let signature = fs::read_to_string(SIGNATURE).unwrap_or_default();
    let build = format!("{} {signature}", name.version().to_string_lossy());
    let kernel = Kernel::of(&name.release().to_string_lossy(), &build);
    kernel.with_sctp(Path::new(SCTP).exists())
}

/// The time that something may take on this kernel which may take this long on one that no program emulates.
pub(crate) fn patience(time: Duration) -> Duration {
    static IS_EMULATED: OnceLock<bool> = OnceLock::new();
    let look = || is_emulated(&fs::read_to_string(PROCESSORS).unwrap_or_default());
    if *IS_EMULATED.get_or_init(look) { time.saturating_mul(SLOWNESS) } else { time }
}

fn is_emulated(processors: &str) -> bool {
    processors.lines().any(|line| line.starts_with("model name") && line.contains(EMULATED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_qemu_emulates_is_known_by_its_name() {
        assert!(is_emulated("processor\t: 0\nmodel name\t: QEMU TCG CPU version 2.5+\nflags\t\t: fpu\n"));
        // The processor of a host on which qemu uses KVM, and a CPU model of qemu's that KVM executes.
        for name in ["Intel(R) Xeon(R) Processor", "QEMU Virtual CPU version 2.5+"] {
            assert!(!is_emulated(&format!("processor\t: 0\nmodel name\t: {name}\n")), "{name}");
        }
    }
}
