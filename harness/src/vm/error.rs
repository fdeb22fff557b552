//! Why there is no machine with a kernel.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use super::architecture;
use crate::report::{Cause, Trouble};
use crate::text::{printable, reason};

/// Why a kernel cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// There is no such kernel.
    #[error("there is no kernel `{}`: it is neither a file, nor a folder, nor an installed version", printable(.0))]
    NoKernel(PathBuf),
    /// A folder or a package has no kernel image.
    #[error("{} has no kernel image (vmlinuz)", printable(.0))]
    NoImage(PathBuf),
    /// A folder has several.
    #[error("{} has several kernels: {}", printable(.folder), .images.join(", "))]
    SeveralImages {
        /// The folder.
        folder: PathBuf,
        /// The images in it.
        images: Vec<String>,
    },
    /// A file is no kernel image.
    #[error("{} is not a kernel image: {what}", printable(.file))]
    NotAnImage {
        /// The file.
        file: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// A kernel is for another architecture.
    #[error("{} is a kernel for {found}, and this machine is {}", printable(.file), architecture::NAME)]
    OtherArchitecture {
        /// The kernel.
        file: PathBuf,
        /// Its architecture.
        found: &'static str,
    },
    /// Kernels can be started on some architectures only.
    #[error("svclab cannot start a kernel on {0}")]
    UnsupportedHost(&'static str),
    /// A kernel's modules were not found.
    #[error("the modules of kernel {release} were not found: {places}")]
    NoModules {
        /// The kernel.
        release: String,
        /// Where they were looked for.
        places: String,
    },
    /// A kernel does not have what labs need.
    #[error("kernel {release} lacks {}: built neither into it nor as a module", .modules.join(", "))]
    Lacking {
        /// The kernel.
        release: String,
        /// The modules.
        modules: Vec<&'static str>,
    },
    /// A file cannot be read.
    #[error("{}: {}", printable(.file), defect(.source))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A module of the kernel cannot be read.
    #[error("{}: {}", printable(.file), defect(.source))]
    BrokenModule {
        /// Where it is: in a folder, or in a package.
        file: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// svclab's own program, or one of netfilter's, cannot be read.
    #[error("{}: {}", printable(.file), reason(.source))]
    UnreadableProgram {
        /// The program, or a library of it.
        file: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A program is missing.
    #[error("{program} is not in {}", printable(.place))]
    NoProgram {
        /// The program.
        program: String,
        /// Where it was looked for.
        place: PathBuf,
    },
    /// A library that a program needs is missing.
    #[error("{} needs {library}, which is not in {}", printable(.of), printable(.place))]
    NoLibrary {
        /// The program or library.
        of: PathBuf,
        /// What it needs.
        library: String,
        /// Where it was looked for.
        place: PathBuf,
    },
    /// The initial file system cannot be made.
    #[error("the initial file system of the machine cannot be written: {}", reason(.0))]
    NotWritten(io::Error),
    /// There is no qemu.
    #[error("{} is not installed", architecture::QEMU)]
    NoQemu,
    /// qemu cannot be started.
    #[error("{} cannot be started: {}", architecture::QEMU, reason(.0))]
    NotStarted(io::Error),
}

impl VmError {
    /// A sentence that names the fix.
    pub fn help(&self) -> Cow<'static, str> {
        Cow::from(match self {
            Self::Lacking { modules, .. } => return Cow::from(build_with(modules)),
            Self::NoKernel(_) => {
                "Name a vmlinuz, a folder with one, a kernel package (.deb), or a version below /lib/modules."
            }
            Self::NoImage(_) => "Name the package or folder with boot/vmlinuz-VERSION (Debian: linux-image-VERSION).",
            Self::SeveralImages { .. } => "Name one of them.",
            Self::NotAnImage { .. } => "Name a vmlinuz (bzImage), as distributions install it in /boot.",
            Self::OtherArchitecture { .. } => "Name a kernel for this architecture: only its programs are there.",
            Self::UnsupportedHost(_) => return Cow::from(format!("Use --kernel on {}.", architecture::NAME)),
            Self::NoModules { .. } => {
                "Put them beside the kernel as lib/modules/VERSION. Ubuntu has them in a package of its own: `apt-get download linux-modules-VERSION`, into the folder of the first."
            }
            Self::Unreadable { .. } => "Name a file that can be read. If it is not whole, download it again.",
            Self::BrokenModule { .. } => "Unpack or install the kernel's package again: the module is damaged.",
            Self::UnreadableProgram { .. } => "Allow reading it, or name another --userland.",
            Self::NoProgram { .. } => "Install iptables, nftables and conntrack there, or name another --userland.",
            Self::NoLibrary { .. } => "Install the library there, or name another --userland.",
            Self::NotWritten(_) => "Make room in the cache folder (~/.cache, or XDG_CACHE_HOME), or in TMPDIR (/tmp).",
            Self::NoQemu => "Install it: `apt-get install qemu-system-x86` (Fedora: qemu-system-x86-core).",
            Self::NotStarted(_) => "Allow more processes (`ulimit -u`), and room for its log in TMPDIR (/tmp).",
        })
    }

    fn cause(&self) -> Cause {
        match self {
            Self::NoQemu | Self::NotStarted(_) | Self::NotWritten(_) | Self::UnsupportedHost(_) => Cause::Environment,
            _ => Cause::Input,
        }
    }
}

/// What is proposed where modules are missing: the options that build them are named like them, but for one.
fn build_with(modules: &[&str]) -> String {
    let option = |module: &&str| match *module {
        "br_netfilter" => "CONFIG_BRIDGE_NETFILTER".to_owned(),
        name => format!("CONFIG_{}", name.to_uppercase()),
    };
    let options: Vec<String> = modules.iter().map(option).collect();
    format!("Choose a kernel that is built with {}, or add its package of modules.", options.join(", "))
}

/// What is wrong with a file: readers only say of one that ends early that they cannot read on.
fn defect(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends early, so it is not whole".to_owned(),
        _ => reason(error),
    }
}

impl From<VmError> for Trouble {
    fn from(error: VmError) -> Self {
        Self { cause: error.cause(), message: error.to_string(), help: Some(error.help().into_owned()), span: None }
    }
}
