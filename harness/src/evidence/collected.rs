//! The files of a folder or archive as they are read, with their bounds.

use crate::input::{FILE_BYTES, compressed, from_utf16};

/// The name of a file among several, and its text or why it is left out.
pub(crate) type Visit<'v> = dyn FnMut(Option<&str>, Result<String, String>) + 'v;

/// Bytes of all files of a folder or archive together.
pub(super) const ALL_BYTES: u64 = 256 << 20;

/// Files of a folder or archive.
pub(super) const FILES: usize = 20_000;

/// The files of a folder or archive, with their bounds.
pub(super) struct Collected<'c, 'v> {
    pub(super) visit: &'c mut Visit<'v>,
    pub(super) bytes: u64,
    pub(super) files: usize,
}

impl Collected<'_, '_> {
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.count(bytes.len() as u64)?;
        self.take(name, bytes);
        Ok(())
    }

    /// Checks that this many more bytes are not too many.
    pub(super) fn allow(&self, bytes: u64) -> Result<(), String> {
        match self.bytes.saturating_add(bytes) > ALL_BYTES {
            true => Err(format!("it has more than {} MiB of files", ALL_BYTES >> 20)),
            false => Ok(()),
        }
    }

    /// Counts a file of this many bytes.
    pub(super) fn count(&mut self, bytes: u64) -> Result<(), String> {
        self.allow(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += 1;
        if self.files > FILES {
            return Err(format!("it has more than {FILES} files"));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, name: &str, bytes: &[u8]) {
        if bytes.len() > FILE_BYTES {
            self.leave_out(name, format!("it is longer than {} MiB", FILE_BYTES >> 20));
        } else if let Some(reason) = compressed(bytes) {
            self.leave_out(name, reason);
        } else if let Some(text) = from_utf16(bytes) {
            (self.visit)(Some(name), Ok(text));
        } else if bytes.contains(&0) {
            self.leave_out(name, "it is not text".to_owned());
        } else {
            (self.visit)(Some(name), Ok(String::from_utf8_lossy(bytes).into_owned()));
        }
    }

    /// Leaves out a part of an archive that is none of its files.
    pub(super) fn leave_out_of_whole(&mut self, reason: &str) {
        (self.visit)(None, Err(reason.to_owned()));
    }

    pub(super) fn leave_out(&mut self, name: &str, reason: String) {
        (self.visit)(Some(name), Err(reason));
    }
}
