//! Evidence from files, folders, archives and standard input.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::{Kind, unpack, unpack_in_folder, unpack_path};
use super::collected::{Collected, Visit};
use super::families;
use super::model::{Evidence, HostName, Piece, Release, Stretch};
use super::read::{read, read_next};
use super::unread::Unread;
use crate::input::{FILE_BYTES, STANDARD_INPUT, read_argument, read_bytes, text_of_bytes};
use crate::text::{printable, reason};

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

/// What evidence is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, a folder, or an archive (`.tar`, `.tar.gz`, `.gz`, `.zip`).
    Path(PathBuf),
    /// The content of standard input, a text or an archive.
    StandardInput(Vec<u8>),
}

impl Source {
    /// Returns the source that a path names: standard input, which is read, for `-`.
    ///
    /// # Errors
    ///
    /// If standard input cannot be read, or is longer than 64 MiB.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return read_bytes(io::stdin().lock()).map(Self::StandardInput);
        }
        Ok(Self::Path(path.to_owned()))
    }

    /// Returns its name in messages.
    pub fn name(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::StandardInput(_) => Path::new(STANDARD_INPUT),
        }
    }

    /// Returns whether it is an archive or a compressed file, by its first bytes.
    pub fn is_archive(&self) -> bool {
        !matches!(self.kind(), Kind::Text)
    }

    /// The kind of its content; that of a folder, and of what cannot be opened, is text.
    fn kind(&self) -> Kind {
        match self {
            Self::Path(path) => Kind::of(path).unwrap_or(Kind::Text),
            Self::StandardInput(bytes) => Kind::of_bytes(bytes),
        }
    }

    /// Returns whether it is a folder.
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Path(path) if path.is_dir())
    }

    /// Returns its text, if it is neither a folder nor an archive.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is longer than 64 MiB, or is not text.
    pub fn text(self) -> io::Result<String> {
        match self {
            Self::Path(path) => read_argument(&path),
            Self::StandardInput(bytes) => text_of_bytes(bytes),
        }
    }
}

/// Reads a source. Archives in a folder are read, too, those in archives are not.
///
/// # Errors
///
/// What cannot be opened; archives that are larger than 256 MiB unpacked, or contain links, devices or paths that lead out of them.
pub fn from_source(source: Source) -> Result<Evidence, SourceError> {
    let path = source.name().to_owned();
    let mut evidence = Evidence::default();
    visit(source, &mut |name, text| match (name, text) {
        (None, Ok(text)) => evidence = read_file(&path, &text),
        (Some(name), Ok(text)) => {
            let next = read_next(&text, &evidence);
            evidence.add(name, next);
            evidence.add_host_name(name, &text);
        }
        (name, Err(reason)) => {
            let file = name.map(Into::into);
            evidence.unread.push(Unread { file, line: 1, text: String::new(), reason });
        }
    })?;
    evidence.add_name_of_bundle(&path);
    Ok(evidence)
}

/// Reads the text of a file.
pub fn read_file(path: &Path, text: &str) -> Evidence {
    let mut evidence = read(text);
    families::assign(&mut evidence, path.to_str());
    evidence
}

/// Hands on the text of a file, or of all files of a folder or archive, one after the other.
///
/// # Errors
///
/// Those of [`from_source`].
pub(crate) fn visit(source: Source, visit: &mut Visit<'_>) -> Result<(), SourceError> {
    let path = source.name().to_owned();
    let failed = |message: String, help| SourceError { path: path.clone(), message, help };
    let mut all = Collected { visit, bytes: 0, files: 0 };
    let kind = source.kind();
    if !matches!(kind, Kind::Text) {
        let unpacked = match &source {
            Source::Path(path) => unpack_path(path, &kind, &mut all),
            Source::StandardInput(bytes) => unpack(Cursor::new(bytes), &kind, &mut all),
        };
        return unpacked
            .map_err(|message| failed(message, "Unpack the archive yourself, check it, and pass the folder."));
    }
    if let Source::Path(path) = &source {
        let is_folder = fs::metadata(path).map(|metadata| metadata.is_dir()).map_err(|error| {
            failed(format!("cannot read the input: {}", reason(error)), "Check the path and its permissions.")
        })?;
        if is_folder {
            let folder = walk(path, path, 0, &mut all);
            return folder.map_err(|message| failed(message, "Pass a folder that a log collector wrote."));
        }
    }
    let text = source.text().map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::Unsupported => "Pass the text or the folder that is in it.",
            _ => "Save it as UTF-8 text of at most 64 MiB.",
        };
        failed(format!("cannot read the file: {}", reason(error)), help)
    })?;
    (all.visit)(None, Ok(text));
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
        self.ipvs.extend(other.ipvs.into_iter().map(in_file));
        let releases = other.releases.into_iter();
        self.releases.extend(releases.map(|one| Release { file: Some(named(one.file.clone())), ..one }));
        let hosts = other.hosts.into_iter();
        self.hosts.extend(hosts.map(|one| HostName { file: Some(named(one.file.clone())), ..one }));
        self.unread
            .extend(other.unread.into_iter().map(|unread| Unread { file: Some(named(unread.file.clone())), ..unread }));
    }
}
