//! What a machine starts from.

use std::fs::File;

/// The files that qemu loads.
#[derive(Debug)]
pub(super) struct Boot {
    /// The kernel's image.
    pub(super) image: File,
    /// The initial file system.
    pub(super) initramfs: File,
    /// The kernel's release, as `uname -r` prints it.
    pub(super) release: String,
}

/// The same in memory, when it was made.
pub(super) struct Made {
    pub(super) image: Vec<u8>,
    pub(super) initramfs: Vec<u8>,
    pub(super) release: String,
}
