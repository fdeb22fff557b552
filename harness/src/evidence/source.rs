//! Evidence from files, folders and archives.
//!
//! Nothing is unpacked onto the disk. An archive that names places outside of itself, or has links or devices, is not one that a
//! collector of logs made; it is rejected as a whole. In a folder, it is left out.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;
use zip::result::ZipError;

use super::families;
use super::model::{Evidence, HostName, Piece, Release, Stretch, Unread};
use super::read::read;
use crate::input::{FILE_BYTES, from_utf16, read_argument};
use crate::text::{printable, reason};

/// Bytes of all files of a folder or archive together.
const ALL_BYTES: u64 = 256 << 20;

/// Files of a folder or archive.
const FILES: usize = 20_000;

/// How deep folders are nested.
const DEPTH: usize = 24;

/// Why no evidence can be read from a path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", printable(path))]
pub struct SourceError {
    /// The path.
    pub path: PathBuf,
    /// What is wrong, a fragment in lower case.
    pub message: String,
    /// How to correct it, a sentence.
    pub help: &'static str,
}

/// Reads a file, a folder, or an archive (`.tar`, `.tar.gz`, `.gz`, `.zip`). Archives in a folder are read, too, those in archives are not.
///
/// # Errors
///
/// What cannot be opened; archives that are larger than 256 MiB unpacked, or contain links, devices or paths that lead out of them.
pub fn from_path(path: &Path) -> Result<Evidence, SourceError> {
    let mut evidence = Evidence::default();
    visit(path, &mut |name, text| match (name, text) {
        (None, Ok(text)) => evidence = read_file(path, &text),
        (Some(name), Ok(text)) => evidence.add(name, read(&text)),
        (name, Err(reason)) => {
            let file = name.map(Into::into);
            evidence.unread.push(Unread { file, line: 1, text: String::new(), reason });
        }
    })?;
    Ok(evidence)
}

/// Reads the text of a file.
pub fn read_file(path: &Path, text: &str) -> Evidence {
    let mut evidence = read(text);
    families::assign(&mut evidence, path.to_str());
    evidence
}

/// The name of a file among several, and its text or why it is left out.
pub(crate) type Visit<'v> = dyn FnMut(Option<&str>, Result<String, String>) + 'v;

/// Hands on the text of a file, or of all files of a folder or archive, one after the other.
///
/// # Errors
///
/// Those of [`from_path`].
pub(crate) fn visit(path: &Path, visit: &mut Visit<'_>) -> Result<(), SourceError> {
    let failed = |message: String, help| SourceError { path: path.to_owned(), message, help };
    let unreadable = |error: io::Error| {
        failed(format!("cannot read the input: {}", reason(error)), "Check the path and its permissions.")
    };
    let mut all = Collected { visit, bytes: 0, files: 0 };
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        let folder = walk(path, path, 0, &mut all);
        return folder.map_err(|message| failed(message, "Pass a folder that a log collector wrote."));
    }
    let kind = Kind::of(path).map_err(unreadable)?;
    if let Kind::Text = kind {
        let text = read_argument(path).map_err(|error| {
            failed(format!("cannot read the file: {}", reason(error)), "Save it as UTF-8 text of at most 64 MiB.")
        })?;
        (all.visit)(None, Ok(text));
        return Ok(());
    }
    let file = File::open(path).map_err(unreadable)?;
    unpack(file, &kind, &mut all)
        .map_err(|message| failed(message, "Unpack the archive yourself, check it, and pass the folder."))
}

/// Whether a path is an archive or a compressed file, by its first bytes.
pub fn is_archive(path: &Path) -> bool {
    matches!(Kind::of(path), Ok(Kind::Gzip | Kind::Tar | Kind::Zip))
}

enum Kind {
    Text,
    Gzip,
    Tar,
    Zip,
}

impl Kind {
    /// By the first bytes; pipes are text.
    fn of(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_file() {
            return Ok(Self::Text);
        }
        let mut start = Vec::with_capacity(512);
        File::open(path)?.take(512).read_to_end(&mut start)?;
        Ok(match start.as_slice() {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // The second is that of an archive without files.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            _ if is_tar(&start) => Self::Tar,
            _ => Self::Text,
        })
    }
}

/// Hands on the files of an archive, or the text of a compressed file.
fn unpack(file: File, kind: &Kind, all: &mut Collected<'_, '_>) -> Result<(), String> {
    match kind {
        Kind::Gzip => gzip(file, all),
        Kind::Zip => zip(file, all),
        Kind::Tar | Kind::Text => tar(file, all),
    }
}

/// Hands on the files of an archive in a folder, which is named before them. One that is rejected hands on nothing.
fn unpack_in_folder(path: &Path, kind: &Kind, name: &str, all: &mut Collected<'_, '_>) {
    let mut texts = Vec::new();
    let mut keep = |inner: Option<&str>, text| {
        texts.push((inner.map_or_else(|| name.to_owned(), |inner| format!("{name}/{inner}")), text));
    };
    let mut own = Collected { visit: &mut keep, bytes: all.bytes, files: all.files };
    let opened = File::open(path).map_err(|error| format!("it cannot be read: {}", reason(&error)));
    let unpacked = opened.and_then(|file| unpack(file, kind, &mut own));
    (all.bytes, all.files) = (own.bytes, own.files);
    match unpacked {
        Ok(()) => texts.into_iter().for_each(|(name, text)| (all.visit)(Some(&name), text)),
        Err(reason) => all.leave_out(name, reason),
    }
}

fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

/// A compressed archive, or a compressed text.
fn gzip(file: File, all: &mut Collected<'_, '_>) -> Result<(), String> {
    let broken = |error: io::Error| format!("it cannot be decompressed: {}", reason(error));
    let mut unzipped = io::BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file).take(ALL_BYTES + 1));
    let start = io::BufRead::fill_buf(&mut unzipped).map_err(broken)?;
    if is_tar(start) {
        return tar(unzipped, all);
    }
    let mut bytes = Vec::new();
    let limit = FILE_BYTES as u64 + 1;
    unzipped.take(limit).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() as u64 == limit {
        return Err(format!("it is larger than {} MiB when decompressed", FILE_BYTES >> 20));
    }
    if bytes.starts_with(&GZIP) {
        return Err("it is compressed twice".to_owned());
    }
    if bytes.contains(&0) {
        return Err("it is not text when decompressed".to_owned());
    }
    all.count(bytes.len() as u64)?;
    (all.visit)(None, Ok(String::from_utf8_lossy(&bytes).into_owned()));
    Ok(())
}

/// What a file that gzip wrote starts with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Checks that a name in an archive stays inside of it.
fn inside(name: &Path) -> Result<String, String> {
    let shown = printable(name).to_string();
    let is_inside = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_inside { Ok(shown) } else { Err(format!("it contains a path that escapes the archive: {shown}")) }
}

fn tar(file: impl Read, all: &mut Collected<'_, '_>) -> Result<(), String> {
    let mut archive = tar::Archive::new(file);
    let broken = |error: io::Error| format!("the archive is damaged: {}", reason(error));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let shown = inside(&entry.path().map_err(broken)?)?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {}
            EntryType::Directory
            | EntryType::XGlobalHeader
            | EntryType::XHeader
            | EntryType::GNULongName
            | EntryType::GNULongLink => continue,
            EntryType::Symlink | EntryType::Link => return Err(format!("it contains a link: {shown}")),
            _ => return Err(format!("it contains a device or pipe: {shown}")),
        }
        // Before it is read: a part that is left out has to be decompressed, too.
        all.count(entry.size())?;
        let mut bytes = Vec::new();
        entry.by_ref().take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(broken)?;
        all.take(&shown, &bytes);
    }
    Ok(())
}

/// The bits of a Unix mode that are the kind of a file, and those of links, files and folders.
const KIND_BITS: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

fn zip(file: File, all: &mut Collected<'_, '_>) -> Result<(), String> {
    // The list of files at the end is read as a whole: an entry takes 46 bytes there, and some hundreds in memory.
    if file.metadata().map_err(|error| reason(error).to_string())?.len() > FILE_BYTES as u64 {
        return Err(format!("the archive is larger than {} MiB", FILE_BYTES >> 20));
    }
    let broken = |error: ZipError| format!("the archive is damaged: {}", reason(error));
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(broken)?;
    if archive.len() > FILES {
        return Err(format!("it has more than {FILES} files"));
    }
    // What it claims is not trusted, but a large claim need not be tried.
    let claimed = archive.decompressed_size().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
    all.allow(claimed)?;
    for at in 0..archive.len() {
        let entry = match archive.by_index(at) {
            Ok(entry) => entry,
            Err(ZipError::UnsupportedArchive(what)) => {
                all.leave_out(&format!("entry {}", at + 1), format!("it cannot be decompressed: {what}"));
                continue;
            }
            Err(error) => return Err(broken(error)),
        };
        let shown = inside(Path::new(&*entry.name().map_err(broken)?))?;
        match entry.unix_mode().unwrap_or_default() & KIND_BITS {
            LINK => return Err(format!("it contains a link: {shown}")),
            _ if entry.is_dir() => continue,
            0 | REGULAR => {}
            FOLDER => continue,
            _ => return Err(format!("it contains a device or pipe: {shown}")),
        }
        let mut bytes = Vec::new();
        match entry.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes) {
            Ok(_) => all.add(&shown, &bytes)?,
            Err(error) => all.leave_out(&shown, format!("it cannot be decompressed: {}", reason(error))),
        }
    }
    Ok(())
}

fn walk(root: &Path, folder: &Path, depth: usize, all: &mut Collected<'_, '_>) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!("folders are nested more than {DEPTH} deep at {}", printable(folder)));
    }
    let failed = |error: io::Error| format!("cannot list {}: {}", printable(folder), reason(error));
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let file_type = entry.file_type().map_err(failed)?;
        let path = entry.path();
        let name = printable(path.strip_prefix(root).unwrap_or(&path)).to_string();
        if file_type.is_dir() {
            walk(root, &path, depth + 1, all)?;
            continue;
        }
        // What a link leads to is not opened.
        if !file_type.is_file() {
            all.leave_out(&name, "it is a link, a pipe or a device".to_owned());
            continue;
        }
        if let Some(kind) = Kind::of(&path).ok().filter(|kind| !matches!(kind, Kind::Text)) {
            unpack_in_folder(&path, &kind, &name, all);
        } else {
            let mut bytes = Vec::new();
            let read = File::open(&path).and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
            match read {
                Ok(_) => all.add(&name, &bytes)?,
                Err(error) => all.leave_out(&name, format!("it cannot be read: {}", reason(error))),
            }
        }
    }
    Ok(())
}

/// The files of a folder or archive, with their bounds.
struct Collected<'c, 'v> {
    visit: &'c mut Visit<'v>,
    bytes: u64,
    files: usize,
}

impl Collected<'_, '_> {
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.count(bytes.len() as u64)?;
        self.take(name, bytes);
        Ok(())
    }

    /// Checks that this many more bytes are not too many.
    fn allow(&self, bytes: u64) -> Result<(), String> {
        match self.bytes.saturating_add(bytes) > ALL_BYTES {
            true => Err(format!("it has more than {} MiB of files", ALL_BYTES >> 20)),
            false => Ok(()),
        }
    }

    /// Counts a file of this many bytes.
    fn count(&mut self, bytes: u64) -> Result<(), String> {
        self.allow(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        self.files += 1;
        if self.files > FILES {
            return Err(format!("it has more than {FILES} files"));
        }
        Ok(())
    }

    fn take(&mut self, name: &str, bytes: &[u8]) {
        if bytes.len() > FILE_BYTES {
            self.leave_out(name, format!("it is longer than {} MiB", FILE_BYTES >> 20));
        } else if let Some(text) = from_utf16(bytes) {
            (self.visit)(Some(name), Ok(text));
        } else if bytes.contains(&0) {
            self.leave_out(name, "it is not text".to_owned());
        } else {
            (self.visit)(Some(name), Ok(String::from_utf8_lossy(bytes).into_owned()));
        }
    }

    fn leave_out(&mut self, name: &str, reason: String) {
        (self.visit)(Some(name), Err(reason));
    }
}

impl Evidence {
    /// Adds what another file shows, or a folder whose files are named already.
    pub fn add(&mut self, file: &str, mut other: Self) {
        families::assign(&mut other, Some(file));
        let whole: Arc<str> = file.into();
        let named = |own: Option<Arc<str>>| own.map_or_else(|| whole.clone(), |own| format!("{whole}/{own}").into());
        self.pieces
            .extend(other.pieces.into_iter().map(|piece| Piece { file: Some(named(piece.file.clone())), ..piece }));
        let in_file = |lines: Stretch| Stretch { file: Some(named(lines.file.clone())), ..lines };
        self.prose.extend(other.prose.into_iter().map(in_file));
        self.commands.extend(other.commands.into_iter().map(in_file));
        self.legacy_warnings.extend(other.legacy_warnings.into_iter().map(in_file));
        let releases = other.releases.into_iter();
        self.releases.extend(releases.map(|one| Release { file: Some(named(one.file.clone())), ..one }));
        let hosts = other.hosts.into_iter();
        self.hosts.extend(hosts.map(|one| HostName { file: Some(named(one.file.clone())), ..one }));
        self.unread
            .extend(other.unread.into_iter().map(|unread| Unread { file: Some(named(unread.file.clone())), ..unread }));
    }
}
