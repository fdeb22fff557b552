//! Archives as trees: packages of Debian and Ubuntu, and images of containers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

use super::VmError;
use super::tree::{Entry, Tree};

/// The most bytes that an archive may unpack to.
const LIMIT: u64 = 2 << 30;

/// The files of a package: an archive of `ar` with a compressed one of `tar` (`deb(5)`).
///
/// # Errors
///
/// If it cannot be read as one.
pub(super) fn package(file: &Path) -> Result<Tree, VmError> {
    let unreadable = |source| VmError::Unreadable { file: file.to_owned(), source };
    let read = || -> io::Result<BTreeMap<PathBuf, Entry>> {
        let mut members = ar::Archive::new(BufReader::new(File::open(file)?));
        while let Some(member) = members.next_entry() {
            let member = member?;
            let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
            if let Some(compression) = name.trim_end_matches('/').strip_prefix("data.tar") {
                return unpack(decompressed(compression, member)?);
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it has no data.tar"))
    };
    Ok(Tree::Archive { files: read().map_err(unreadable)?, from: file.to_owned() })
}

/// A reader of what is compressed as an ending of a file name says.
fn decompressed<'r>(ending: &str, bytes: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    Ok(match ending {
        "" => Box::new(bytes),
        ".xz" => Box::new(lzma_rust2::XzReader::new(bytes, true)),
        ".zst" => Box::new(ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?),
        ".gz" => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        _ => {
            let message = format!("data.tar{ending} is compressed in an unknown way");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    })
}

/// The regular files and links of an archive of `tar`. Paths are taken as below its root, wherever they lead.
pub(super) fn unpack(bytes: impl Read) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut files = BTreeMap::new();
    let mut left = LIMIT;
    for entry in tar::Archive::new(bytes).entries()? {
        let mut entry = entry?;
        let path = below_root(&entry.path()?);
        let header = entry.header();
        let found = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let size = header.size()?;
                left = left.checked_sub(size).ok_or_else(|| io::Error::other("it unpacks to more than 2 GiB"))?;
                let is_executable = header.mode()? & 0o111 != 0;
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                Entry::File { bytes, is_executable }
            }
            EntryType::Symlink => Entry::Link(entry.link_name()?.unwrap_or_default().into_owned()),
            EntryType::Link => {
                let target = below_root(&entry.link_name()?.unwrap_or_default());
                let Some(target) = files.get(&target) else { continue };
                Entry::clone(target)
            }
            _ => continue,
        };
        files.insert(path, found);
    }
    Ok(files)
}

/// A path from the root, without steps upwards.
fn below_root(path: &Path) -> PathBuf {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    Path::new("/").join(names.collect::<PathBuf>())
}
