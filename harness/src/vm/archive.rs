//! Archives as trees: packages of Debian and Ubuntu, and what archives of `tar` have.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

use super::VmError;
use super::compression::{damaged, invalid, plain};
use super::tree::{Entry, Tree, small_file};
use super::xz::LIMIT;
use crate::text::printable;

/// Files and links of an archive by their absolute paths.
pub(super) type Files = BTreeMap<PathBuf, Entry>;

/// The files of a package: an archive of `ar` with a compressed one of `tar` (`deb(5)`).
///
/// # Errors
///
/// If it cannot be read as one.
pub(super) fn package(file: &Path) -> Result<Tree, VmError> {
    let unreadable = |source| VmError::Unreadable { file: file.to_owned(), source };
    let read = || -> io::Result<Files> {
        let mut members = ar::Archive::new(BufReader::new(small_file(file)?));
        while let Some(member) = members.next_entry() {
            let mut member = member?;
            let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
            if name.starts_with("data.tar") {
                let mut bytes = Vec::new();
                member.read_to_end(&mut bytes)?;
                return unpack(plain(&bytes)?);
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it has no data.tar"))
    };
    Ok(Tree::Archive { files: read().map_err(unreadable)?, from: file.to_owned() })
}

/// The regular files and links of an archive of `tar`.
///
/// # Errors
///
/// Those of reading it, and a path that leads out of it.
pub(super) fn unpack(bytes: impl Read) -> io::Result<Files> {
    let mut files = Files::new();
    let mut left = LIMIT;
    for entry in tar::Archive::new(bytes).entries()? {
        let is_first = files.is_empty();
        let mut entry = entry.map_err(|error| if is_first { not_one(error) } else { damaged(error) })?;
        let path = below_root(&entry.path()?)?;
        let header = entry.header();
        let found = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                left = left
                    .checked_sub(entry.size())
                    .ok_or_else(|| invalid("it unpacks to more than 2 GiB".to_owned()))?;
                let is_executable = header.mode()? & 0o111 != 0;
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(damaged)?;
                Entry::File { bytes, is_executable }
            }
            EntryType::Symlink => Entry::Link(entry.link_name()?.unwrap_or_default().into_owned()),
            EntryType::Link => {
                let target = below_root(&entry.link_name()?.unwrap_or_default())?;
                let Some(target) = files.get(&target) else { continue };
                Entry::clone(target)
            }
            _ => continue,
        };
        files.insert(path, found);
    }
    Ok(files)
}

/// The error of a file that does not start as an archive. The library's message would quote the file.
fn not_one(error: io::Error) -> io::Error {
    match error.get_ref() {
        // The tar library reports a malformed header with this kind.
        Some(_) if error.kind() == io::ErrorKind::Other => invalid("it is not a tar archive".to_owned()),
        _ => damaged(error),
    }
}

/// A path from the root. One with steps upwards is made to overwrite what is elsewhere.
fn below_root(path: &Path) -> io::Result<PathBuf> {
    let mut below = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => return Err(invalid(format!("its entry {} leads out of it", printable(path)))),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(below)
}
