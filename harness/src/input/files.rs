//! Reading files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC, SECURITYFS_MAGIC, SYSFS_MAGIC,
    TRACEFS_MAGIC, statfs,
};

use super::compression::compressed;
use super::diagnostics::Span;
use super::diagnostics::{Diagnostic, Diagnostics};
use super::limits::FILE_BYTES;
use crate::text::{printable, reason};

/// Returns the error for a file that cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> Diagnostics {
    let span = Span::start_of(path);
    let message = format!("cannot read the file: {}", reason(error));
    let help = match error.kind() {
        io::ErrorKind::InvalidData => "Save it as UTF-8 text of at most 64 MiB.",
        io::ErrorKind::Unsupported => "Pass the text that is in it.",
        io::ErrorKind::InvalidInput => "Pass a regular file, or pipe the text to /dev/stdin.",
        io::ErrorKind::NotFound => "Check the path: it is relative to the current directory.",
        _ => "Check the path and its permissions.",
    };
    Diagnostics { errors: vec![Diagnostic::new(span, message, help)], sources: BTreeMap::new() }
}

/// Reads a file that a scenario names or a folder contains. Pipes are rejected: reading one could block forever.
///
/// # Errors
///
/// A system error, `InvalidInput` for anything except a regular file, `Unsupported` for a compressed file, or `InvalidData` for a file that is
/// longer than [`FILE_BYTES`] or not UTF-8.
pub fn read_file(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe, a socket or a device, not a regular file",
        ));
    }
    read_argument(path)
}

/// Kernel file systems, whose files are generated when read: some never end, and reading some loses data.
const OF_KERNEL: [FsType; 7] = [
    PROC_SUPER_MAGIC,
    SYSFS_MAGIC,
    DEBUGFS_MAGIC,
    TRACEFS_MAGIC,
    SECURITYFS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
];

/// Rejects files on kernel file systems: `/proc/kmsg` looks like a regular file, but reading it blocks.
fn not_of_kernel(path: &Path) -> io::Result<()> {
    if OF_KERNEL.contains(&statfs(path)?.filesystem_type()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is on a kernel file system (/proc, /sys)"));
    }
    Ok(())
}

/// Reads a file that the user named, which may be an open pipe: `/dev/stdin`, or a shell's `<(...)`. A FIFO in
/// a folder is rejected, as it may never have a writer.
///
/// # Errors
///
/// As [`read_file`], which also rejects open pipes.
pub fn read_argument(path: &Path) -> io::Result<String> {
    // The link of an open pipe does not resolve to a file.
    if fs::metadata(path)?.file_type().is_fifo() && fs::canonicalize(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe (FIFO), not a regular file"));
    }
    not_of_kernel(path)?;
    read_limited(File::open(path)?)
}

/// Where the files that a scenario names may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// In the scenario's repository: the nearest folder above it that has a `.git`; without one, in the
    /// scenario's own folder. Symbolic links are resolved first.
    #[default]
    Repository,
    /// Anywhere.
    Anywhere,
}

impl Reach {
    /// Returns a reader of the files that a scenario names, given the scenario's path.
    pub fn reader(self, scenario: &Path) -> impl Fn(&Path) -> io::Result<String> + use<> {
        let root = match self {
            Self::Repository => Some(repository(&folder_of(scenario))),
            Self::Anywhere => None,
        };
        move |path| match &root {
            None => read_file(path),
            Some(Ok(root)) => read_below(root, path),
            Some(Err(error)) => Err(error.kind().into()),
        }
    }
}

/// Returns the folder that a scenario's paths are relative to; the current one for a scenario from a pipe or a descriptor.
pub(crate) fn folder_of(scenario: &Path) -> PathBuf {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|start| scenario.starts_with(start));
    if is_open { PathBuf::new() } else { scenario.parent().unwrap_or(Path::new("")).to_owned() }
}

/// Returns the canonical path of the nearest folder with a `.git`, from a folder upwards; without one, that folder itself.
fn repository(folder: &Path) -> io::Result<PathBuf> {
    let folder = fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    let root = folder.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned);
    Ok(root.unwrap_or(folder))
}

/// Reads a file that must be in a folder. For files elsewhere, the error does not reveal whether they exist.
fn read_below(root: &Path, path: &Path) -> io::Result<String> {
    let is_below = |place: &Path| place.starts_with(root);
    let path = std::path::absolute(path)?;
    match fs::canonicalize(&path) {
        Ok(place) if is_below(&place) => read_file(&place),
        Err(error)
            if path.ancestors().find_map(|above| fs::canonicalize(above).ok()).is_some_and(|at| is_below(&at)) =>
        {
            Err(error)
        }
        _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, Outside(root.to_owned()))),
    }
}

/// The file is outside the folder that files may be read from.
#[derive(Debug, thiserror::Error)]
#[error("it is outside {}", printable(.0))]
struct Outside(PathBuf);

/// Returns whether a file was not read because it is outside the allowed folder.
pub(crate) fn is_outside(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Outside>())
}

/// Reads an open file.
///
/// # Errors
///
/// As [`read_file`].
pub fn read_limited(file: impl Read) -> io::Result<String> {
    text_of_bytes(read_bytes(file)?)
}

/// Reads at most [`FILE_BYTES`] bytes.
pub(crate) fn read_bytes(file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = FILE_BYTES as u64 + 1;
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {} MiB", FILE_BYTES >> 20)));
    }
    Ok(bytes)
}

/// The text of bytes in UTF-8 or UTF-16.
pub(crate) fn text_of_bytes(bytes: Vec<u8>) -> io::Result<String> {
    if let Some(reason) = compressed(&bytes) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    if let Some(text) = from_utf16(&bytes) {
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("it is not text in UTF-8: see line {line}, after {} bytes", valid.len());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// The text of bytes in UTF-16, as PowerShell's `>` writes it, if they start with a byte order mark.
pub(crate) fn from_utf16(bytes: &[u8]) -> Option<String> {
    let (of_pair, rest): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        _ => return None,
    };
    let (pairs, []) = rest.as_chunks::<2>() else { return None };
    let units: Vec<u16> = pairs.iter().map(|pair| of_pair(*pair)).collect();
    String::from_utf16(&units).ok()
}
