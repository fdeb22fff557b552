//! Archives and compressed files.
//!
//! Nothing is unpacked onto the disk. An archive that names places outside of itself, or has links or devices, is not one that a
//! collector of logs made; it is rejected as a whole. In a folder, it is left out.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path};

use flate2::read::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;
use zip::result::ZipError;

use super::collected::{ALL_BYTES, Collected, FILES};
use crate::input::FILE_BYTES;
use crate::text::{printable, reason};

/// The kind of a file.
pub(super) enum Kind {
    Text,
    Gzip,
    Tar,
    Zip,
}

impl Kind {
    /// By the first bytes of a file; pipes are text.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_file() {
            return Ok(Self::Text);
        }
        let mut start = Vec::with_capacity(512);
        File::open(path)?.take(512).read_to_end(&mut start)?;
        Ok(Self::of_bytes(&start))
    }

    /// By the first bytes of a content.
    pub(super) fn of_bytes(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // The second is that of an archive without files.
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Self::Zip,
            _ if is_tar(start) => Self::Tar,
            _ => Self::Text,
        }
    }
}

/// Hands on the files of an archive, or the text of a compressed file.
pub(super) fn unpack(file: impl Read + Seek, kind: &Kind, all: &mut Collected<'_, '_>) -> Result<(), String> {
    match kind {
        Kind::Gzip => gzip(file, all),
        Kind::Zip => zip(file, all),
        Kind::Tar | Kind::Text => tar(file, all),
    }
}

/// Hands on the files of an archive on the disk.
pub(super) fn unpack_path(path: &Path, kind: &Kind, all: &mut Collected<'_, '_>) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("it cannot be read: {}", reason(&error)))?;
    unpack(file, kind, all)
}

/// Hands on the files of an archive in a folder, which is named before them. One that is rejected hands on nothing.
pub(super) fn unpack_in_folder(path: &Path, kind: &Kind, name: &str, all: &mut Collected<'_, '_>) {
    let mut texts = Vec::new();
    let mut keep = |inner: Option<&str>, text| {
        texts.push((inner.map_or_else(|| name.to_owned(), |inner| format!("{name}/{inner}")), text));
    };
    let mut own = Collected { visit: &mut keep, bytes: all.bytes, files: all.files };
    let unpacked = unpack_path(path, kind, &mut own);
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
fn gzip(file: impl Read, all: &mut Collected<'_, '_>) -> Result<(), String> {
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
    if has_more(archive.into_inner()) {
        all.leave_out_of_whole("what follows the end of the archive is not read");
    }
    Ok(())
}

/// Returns whether anything except zeros follows, with which an archive is padded.
fn has_more(mut rest: impl Read) -> bool {
    let mut block = vec![0; 1 << 16];
    loop {
        match rest.read(&mut block) {
            Ok(0) => return false,
            Ok(length) if block[..length].iter().all(|byte| *byte == 0) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// The bits of a Unix mode that are the kind of a file, and those of links, files and folders.
const KIND_BITS: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

fn zip(mut file: impl Read + Seek, all: &mut Collected<'_, '_>) -> Result<(), String> {
    // The list of files at the end is read as a whole: an entry takes 46 bytes there, and some hundreds in memory.
    let length = file.seek(SeekFrom::End(0)).and_then(|length| file.rewind().map(|()| length));
    let length = length.map_err(|error| reason(error).to_string())?;
    if length > FILE_BYTES as u64 {
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
    if archive.offset() > 0 {
        all.leave_out_of_whole("what precedes the archive in the file is not read");
    }
    let end = END_OF_ZIP + archive.comment().len() as u64;
    if !is_end_of_zip(archive.into_inner(), length.saturating_sub(end)) {
        all.leave_out_of_whole("what follows the end of the archive is not read");
    }
    Ok(())
}

/// The length of the record at the end of an archive, without its comment.
const END_OF_ZIP: u64 = 22;

/// Returns whether the last record of an archive starts at an offset.
fn is_end_of_zip(mut file: impl Read + Seek, offset: u64) -> bool {
    let mut start = [0; 4];
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut start)).is_ok() && start == *b"PK\x05\x06"
}
