//! From the kernel that is asked for to what its machines start from.

use std::env::consts::ARCH;
use std::path::Path;

use super::VmError;
use super::architecture;
use super::boot::{Boot, Made};
use super::cache::cached;
use super::guest;
use super::initramfs::Initramfs;
use super::kernel::Located;
use super::qemu;
use super::tree::fingerprint;
use super::userland::{Source, Userland};

/// The folders that file systems are mounted on, and those that programs expect.
const FOLDERS: [&str; 7] = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/root"];

/// Finds a kernel and the programs for it, and makes what its machines start from, unless that was made before.
///
/// # Errors
///
/// If there is no such kernel, or something that labs need is missing.
pub(super) fn prepare(kernel: &Path, userland: Option<&Path>, svclab: &Path) -> Result<Boot, VmError> {
    // svclab and the programs that it calls run in the kernel that is started.
    if ARCH != architecture::NAME {
        return Err(VmError::UnsupportedHost(ARCH));
    }
    if !qemu::is_installed() {
        return Err(VmError::NoQemu);
    }
    let (located, source) = (Located::find(kernel)?, Source::find(userland)?);
    let inputs = [located.fingerprints(), vec![fingerprint(svclab)], source.fingerprints()].concat();
    cached(&inputs, || make(located, source, svclab))
}

fn make(located: Located, source: Source, svclab: &Path) -> Result<Made, VmError> {
    let tree = source.tree()?;
    let kernel = located.read()?;
    let modules = kernel.modules();
    let lacking = modules.lacking();
    if !lacking.is_empty() {
        return Err(VmError::Lacking { release: kernel.release, modules: lacking });
    }
    let mut files = Initramfs::new();
    FOLDERS.iter().for_each(|folder| files.folder(Path::new(folder)));
    let loaded = modules.closure()?;
    let order: String = loaded.iter().map(|module| format!("{}\n", module.name)).collect();
    files.file(Path::new(guest::ORDER), order.into_bytes(), false);
    for module in loaded {
        files.file(&Path::new(guest::MODULES).join(module.name), module.bytes, false);
    }
    Userland { tree: &tree, svclab }.add_to(&mut files)?;
    let initramfs = files.pack().map_err(VmError::NotWritten)?;
    Ok(Made { image: kernel.image, initramfs, release: kernel.release })
}
