//! The file system that a machine starts with, as the kernel unpacks it: a cpio archive of the form `newc`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cpio::newc::{Builder, trailer};

/// Types of files in a mode (`inode(7)`).
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;

/// The device that the kernel opens for the first process, and its number: without it that has no standard error.
const CONSOLE: (&str, u32, u32) = ("/dev/console", 5, 1);

/// Files by their absolute paths.
#[derive(Debug)]
pub(super) struct Initramfs {
    entries: BTreeMap<PathBuf, Node>,
}

#[derive(Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(Vec<u8>, u32),
    Link(PathBuf),
    Device { major: u32, minor: u32 },
}

impl Initramfs {
    /// A file system that has the console alone.
    pub(super) fn new() -> Self {
        let (console, major, minor) = CONSOLE;
        let mut files = Self { entries: BTreeMap::new() };
        files.add(Path::new(console), Node::Device { major, minor });
        files
    }

    /// Adds a file; one that is at its place already stays.
    pub(super) fn file(&mut self, path: &Path, bytes: Vec<u8>, is_executable: bool) {
        let mode = if is_executable { 0o755 } else { 0o644 };
        self.add(path, Node::File(bytes, mode));
    }

    /// Adds a symbolic link; what is at its place already stays.
    pub(super) fn link(&mut self, path: &Path, target: &Path) {
        self.add(path, Node::Link(target.to_owned()));
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, path: &Path) {
        self.add(path, Node::Folder);
    }

    fn add(&mut self, path: &Path, node: Node) {
        for above in path.ancestors().skip(1).filter(|above| above.parent().is_some()) {
            self.entries.entry(above.to_owned()).or_insert(Node::Folder);
        }
        self.entries.entry(path.to_owned()).or_insert(node);
    }

    /// The archive.
    ///
    /// # Errors
    ///
    /// If a file is larger than the format can have it: 4 GiB.
    pub(super) fn pack(&self) -> io::Result<Vec<u8>> {
        let mut archive = Vec::new();
        for (number, (path, node)) in self.entries.iter().enumerate() {
            let name = path.strip_prefix("/").unwrap_or(path).to_string_lossy();
            // Files with one inode number would be hard links.
            let builder = Builder::new(&name).ino(number as u32 + 1).nlink(1);
            let (builder, bytes): (Builder, &[u8]) = match node {
                Node::Folder => (builder.mode(FOLDER | 0o755), &[]),
                Node::File(bytes, mode) => (builder.mode(FILE | mode), bytes),
                Node::Link(target) => (builder.mode(LINK | 0o777), target.as_os_str().as_encoded_bytes()),
                Node::Device { major, minor } => {
                    (builder.mode(DEVICE | 0o600).rdev_major(*major).rdev_minor(*minor), &[])
                }
            };
            let size = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let mut writer = builder.write(&mut archive, size);
            io::Write::write_all(&mut writer, bytes)?;
            writer.finish()?;
        }
        trailer(archive)
    }
}

/// What archives have, for tests.
#[cfg(test)]
pub(super) mod listing {
    use std::io::Read;

    /// An entry: its path, its mode, and its content or target.
    pub(in super::super) type Listed = (String, u32, Vec<u8>);

    /// The entries of an archive.
    pub(in super::super) fn entries(mut archive: &[u8]) -> Vec<Listed> {
        let mut entries = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(archive).expect("an entry");
            if reader.entry().is_trailer() {
                return entries;
            }
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).expect("its bytes");
            entries.push((reader.entry().name().to_owned(), reader.entry().mode(), bytes));
            archive = reader.finish().expect("padding");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_what_is_in_them() {
        let mut files = Initramfs::new();
        files.link(Path::new("/usr/bin/sh"), Path::new("dash"));
        files.file(Path::new("/usr/bin/dash"), b"#!".to_vec(), true);
        files.file(Path::new("/usr/bin/dash"), b"another".to_vec(), false);
        let packed = files.pack().expect("small files");
        let expected = [
            ("dev", 0o040_755, ""),
            ("dev/console", 0o020_600, ""),
            ("usr", 0o040_755, ""),
            ("usr/bin", 0o040_755, ""),
            ("usr/bin/dash", 0o100_755, "#!"),
            ("usr/bin/sh", 0o120_777, "dash"),
        ];
        assert_eq!(
            listing::entries(&packed),
            expected.map(|(name, mode, bytes)| (name.to_owned(), mode, bytes.into()))
        );
    }
}
