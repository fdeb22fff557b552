//! Machines with a kernel of one's choice: a worker that runs in one is the same as a process of this machine.
//!
//! ```text
//! WHAT ─find→ Located ─read→ KernelImage ─closure→ modules ─┐
//!                  programs ─gather→ their libraries ───────┴─pack→ Made ─cached→ Boot ─start→ qemu ─→ svclab as /init
//! ```
//!
//! - `machines`: a kernel that machines are started with; `prepare`: the way to what they start from;
//! - `tree`: files in a folder or an archive; `archive`: packages; `container`: images of containers; `compression`, `xz`: how
//!   they are packed; `elf`: what programs and modules say of themselves; `architecture`: what has another name on each;
//! - `kernel`: the kernel that is asked for; `bzimage`: its image; `modules`: those that labs need;
//! - `userland`: the programs of a machine; `gathered`: these with their libraries;
//! - `initramfs`: the file system that a machine starts with; `boot`: this and the image; `cache`: those that were made before;
//! - `qemu`: the machine's process; `log`: its kernel's log; `ending`: how it ended; `guest`: the first process in it.
//!
//! A machine has no network and no disk: what it has to say comes over a virtio port, whose other ends are standard input and
//! output of qemu. It is killed with the thread that started it.

mod architecture;
mod archive;
mod boot;
mod bzimage;
mod cache;
mod compression;
mod container;
mod elf;
mod ending;
mod error;
mod gathered;
mod guest;
mod initramfs;
mod kernel;
mod log;
mod machines;
mod modules;
mod prepare;
mod qemu;
mod tree;
mod userland;
mod xz;

pub(crate) use ending::Ending;
pub use error::VmError;
pub use guest::{enter, is_guest, leave};
pub(crate) use log::Log;
pub use machines::Vm;
pub use qemu::Size;
pub(crate) use qemu::Started;
