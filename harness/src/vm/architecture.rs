//! The architecture whose kernels can be started, with what has a name of its own on it.

/// Its name, as `uname -m` and Rust have it.
pub(super) const NAME: &str = "x86_64";

/// Its name in images of containers (Go's).
pub(super) const OF_CONTAINERS: &str = "amd64";

/// The qemu that has its processors.
pub(super) const QEMU: &str = "qemu-system-x86_64";

/// The program of the GNU C library that loads its programs.
pub(super) const LOADER: &str = "ld-linux-x86-64.so.2";

/// Folders in which libraries are looked for, as the loaders of glibc and musl do without settings.
pub(super) const LIBRARIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib/x86_64-linux-gnu",
];

/// Folders of the extensions that iptables loads.
pub(super) const EXTENSIONS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/xtables",
    "/usr/lib64/xtables",
    "/usr/lib/xtables",
    "/usr/local/lib/xtables",
    "/lib/xtables",
];
