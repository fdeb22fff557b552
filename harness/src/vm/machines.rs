//! A kernel that machines are started with.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::VmError;
use super::boot::Boot;
use super::prepare::prepare;
use super::qemu::{self, Accelerator, Size, Started};
use crate::text::{printable, shell_word};

/// A kernel, ready to be started as often as it is needed.
#[derive(Debug)]
pub struct Vm {
    boot: Boot,
    size: Size,
    /// The command-line options that select it: `--kernel=vmlinuz`.
    options: String,
    /// What executes it, once that was tried.
    accelerator: Mutex<Option<Accelerator>>,
}

impl Vm {
    /// Finds a kernel, and makes what it starts from: `svclab` is the program that serves in it.
    ///
    /// # Errors
    ///
    /// If there is no such kernel, or something that labs need is missing.
    pub fn prepare(kernel: &Path, userland: Option<&Path>, size: Size, svclab: &Path) -> Result<Self, VmError> {
        let option = |name: &str, path: &Path| shell_word(&format!("--{name}={}", printable(path)));
        let options: Vec<String> = [Some(option("kernel", kernel)), userland.map(|path| option("userland", path))]
            .into_iter()
            .flatten()
            .collect();
        let boot = prepare(kernel, userland, svclab)?;
        Ok(Self { boot, size, options: options.join(" "), accelerator: Mutex::default() })
    }

    /// The options of commands that chose it.
    pub(crate) fn options(&self) -> &str {
        &self.options
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

    /// Emulates the kernel from now on.
    pub(crate) fn emulate(&self) {
        *self.accelerator.lock().unwrap_or_else(PoisonError::into_inner) = Some(Accelerator::Emulation);
    }

    /// Starts a machine in which svclab does what the arguments say.
    ///
    /// # Errors
    ///
    /// If qemu cannot be started.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Started, VmError> {
        let mut accelerator = self.accelerator.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *accelerator {
            drop(accelerator);
            return qemu::start(&self.boot, self.size, known, arguments);
        }
        let (machine, works) = qemu::try_to_start(&self.boot, self.size, arguments)?;
        *accelerator = Some(works);
        Ok(machine)
    }
}
