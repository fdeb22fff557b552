//! Machines with a kernel of one's choice: a worker that runs in one is the same as a process of this machine.
//!
//! ```text
//! WHAT ─find→ Located ─read→ Kernel ─closure→ modules ─┐
//!             programs ─gather→ their libraries ───────┴─pack→ initramfs ─cached→ Boot ─start→ qemu ─→ svclab as /init
//! ```
//!
//! - `tree`: files in a folder or an archive; `archive`: packages; `image`: images of containers; `elf`: what programs and modules say of themselves;
//! - `kernel`: the kernel that is asked for; `modules`: those that labs need; `userland`: programs with their libraries;
//! - `initramfs`: the file system that a machine starts with; `cache`: those that were made before;
//! - `qemu`: the machine's process; `log`: its kernel's log, and how it ended; `guest`: the first process in it.
//!
//! A machine has no network and no disk: what it has to say comes over a virtio port, whose other ends are standard input and
//! output of qemu. It is killed with the thread that started it.

mod archive;
mod cache;
mod elf;
mod error;
mod guest;
mod image;
mod initramfs;
mod kernel;
mod log;
mod modules;
mod qemu;
mod tree;
mod userland;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::{Mutex, PoisonError};

pub use error::VmError;
pub use guest::{enter, is_guest, leave};
pub(crate) use log::{Cause as EndingCause, Ending, Log};
pub use qemu::Size;

use cache::{Boot, Made, cached};
use initramfs::Initramfs;
use kernel::{Located, modules_fingerprint};
use qemu::Accelerator;
use tree::Tree;
use userland::Userland;

/// A kernel, ready to be started as often as it is needed.
#[derive(Debug)]
pub struct Vm {
    boot: Boot,
    size: Size,
    /// What executes it, once that was tried.
    accelerator: Mutex<Option<Accelerator>>,
}

/// A machine that was started.
pub(crate) struct Started {
    pub(crate) process: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) log: Log,
}

impl Vm {
    /// Finds a kernel, and makes what it starts from: `svclab` is the program that serves in it.
    ///
    /// # Errors
    ///
    /// If there is no such kernel, or something that labs need is missing.
    pub fn prepare(kernel: &Path, userland: Option<&Path>, size: Size, svclab: &Path) -> Result<Self, VmError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(VmError::UnsupportedHost(std::env::consts::ARCH));
        }
        if !qemu::is_installed() {
            return Err(VmError::NoQemu(qemu::QEMU));
        }
        let located = Located::find(kernel)?;
        if let Some(file) = userland {
            file.metadata().map_err(|source| VmError::Unreadable { file: file.to_owned(), source })?;
        }
        let image = userland.filter(|path| path.is_file());
        let folder = userland.map_or_else(Tree::host, |folder| Tree::Folder(folder.to_owned()));
        let mut inputs = vec![located.fingerprint(), tree::fingerprint(svclab)];
        inputs.extend(modules_fingerprint(&located));
        inputs.extend(match image {
            Some(file) => vec![tree::fingerprint(file)],
            None => Userland { tree: &folder, svclab }.fingerprints(),
        });
        let boot = cached(&inputs, || {
            let tree = image.map_or(Ok(folder), image::image)?;
            make(located, &Userland { tree: &tree, svclab })
        })?;
        Ok(Self { boot, size, accelerator: Mutex::default() })
    }

    /// The release of the kernel, as `uname -r` prints it.
    pub fn release(&self) -> &str {
        &self.boot.release
    }

    /// Whether the kernel is emulated; `None` as long as none was started.
    pub fn is_emulated(&self) -> Option<bool> {
        let accelerator = *self.accelerator.lock().unwrap_or_else(PoisonError::into_inner);
        accelerator.map(|accelerator| accelerator == Accelerator::Emulation)
    }

    /// Starts a machine in which svclab does what the arguments say.
    ///
    /// # Errors
    ///
    /// If qemu cannot be started.
    pub(crate) fn start(&self, arguments: &[&str]) -> io::Result<Started> {
        let machine = {
            let mut accelerator = self.accelerator.lock().unwrap_or_else(PoisonError::into_inner);
            match *accelerator {
                Some(known) => qemu::start(&self.boot, self.size, known, arguments)?,
                None => {
                    let (machine, works) = qemu::try_to_start(&self.boot, self.size, arguments)?;
                    *accelerator = Some(works);
                    machine
                }
            }
        };
        let qemu::Machine { mut process, log } = machine;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Started { process, input, output, log })
    }
}

/// Makes what a machine starts from.
fn make(located: Located, programs: &Userland<'_>) -> Result<Made, VmError> {
    let kernel = located.read()?;
    let modules = kernel.modules();
    let lacking = modules.lacking();
    if !lacking.is_empty() {
        return Err(VmError::Lacking { release: kernel.release.clone(), modules: lacking });
    }
    let mut files = Initramfs::default();
    for folder in ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/root"] {
        files.folder(Path::new(folder));
    }
    let loaded =
        modules.closure().map_err(|source| VmError::Unreadable { file: PathBuf::from(&kernel.release), source })?;
    let order: String = loaded.iter().map(|module| format!("{}\n", module.name)).collect();
    files.file(Path::new(guest::ORDER), order.into_bytes(), false);
    for module in loaded {
        files.file(&Path::new(guest::MODULES).join(module.name), module.bytes, false);
    }
    programs.add_to(&mut files)?;
    let initramfs = files.pack().map_err(VmError::NotWritten)?;
    Ok(Made { image: kernel.image.clone(), initramfs, release: kernel.release.clone() })
}
