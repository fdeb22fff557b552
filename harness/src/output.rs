//! Destinations of documents: standard output, a file that is replaced as a whole, or an existing object that is not a regular file.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use tempfile::{Builder, NamedTempFile};

/// The name of standard output.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// The destination of a document.
#[derive(Debug)]
pub enum Destination {
    /// Standard output: `-`, and every name of the system for it, such as `/dev/stdout`.
    Stdout,
    /// A file, which is replaced as a whole once the document is complete.
    File(PathBuf),
    /// A device, a FIFO, or a file that this process has open already, which is written to in place.
    Open(File),
}

impl Destination {
    /// Opens the destination at a place. Errors that can be detected before there is a document are reported now; nothing is changed yet.
    ///
    /// # Errors
    ///
    /// If nothing can be written there.
    pub fn open(place: Place) -> io::Result<Self> {
        match place {
            Place::Stdout => Ok(Self::Stdout),
            Place::Open(path) => File::options().append(true).open(path).map(Self::Open),
            Place::File(place) => {
                match fs::metadata(&place) {
                    Ok(_) => File::options().write(true).open(&place).map(drop)?,
                    Err(_) => successor(&place, None).map(drop)?,
                }
                Ok(Self::File(place))
            }
        }
    }
}

impl Destination {
    /// Writes a whole document to the destination.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::File(path) => replace(&path, bytes),
            Self::Open(mut file) => file.write_all(bytes),
        }
    }
}

/// The object that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Standard output.
    Stdout,
    /// A regular file, existing or not, with a path that identifies it uniquely.
    File(PathBuf),
    /// Anything else.
    Open(PathBuf),
}

/// The maximum number of symbolic links that are followed, as in the kernel (`MAXSYMLINKS`).
const LINKS: usize = 40;

impl Place {
    /// Follows the links of a path one by one. A link in `/proc` does not lead to a path that could be replaced, but to an open file of a
    /// process.
    ///
    /// # Errors
    ///
    /// If a folder of the path is missing, and `IsADirectory` for a path that can only name a folder.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Self::Stdout);
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let name = path.file_name().ok_or(Errno::EISDIR)?.to_owned();
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = fs::canonicalize(folder)?;
            path = folder.join(&name);
            let found = fs::symlink_metadata(&path);
            if statfs(&folder)?.filesystem_type() == PROC_SUPER_MAGIC {
                let own = Path::new("/proc").join(std::process::id().to_string()).join("fd");
                return Ok(if name == "1" && folder == own { Self::Stdout } else { Self::Open(path) });
            }
            match found {
                Ok(found) if found.is_symlink() => path = folder.join(fs::read_link(&path)?),
                Ok(found) if found.is_file() => return Ok(Self::File(path)),
                Ok(_) => return Ok(Self::Open(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::File(path)),
                Err(error) => return Err(error),
            }
        }
        Err(Errno::ELOOP.into())
    }
}

/// Atomically replaces a file by one with these bytes: a reader finds the old or the new content, nothing in between. A symbolic link is
/// replaced, not followed.
///
/// # Errors
///
/// The error of the system; the file is then unchanged.
pub fn replace(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let known = fs::symlink_metadata(place).ok().filter(Metadata::is_file);
    let mut new = successor(place, known.as_ref())?;
    new.write_all(bytes)?;
    new.persist(place).map(drop).map_err(|error| error.error)
}

/// A new file in the folder of another, with an unused random name (`O_EXCL`, which follows no link). It is removed unless it replaces the
/// other file. It gets the permissions of the other file, otherwise those that the process's umask leaves.
fn successor(place: &Path, known: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let usual = fs::Permissions::from_mode(0o666);
    let new = Builder::new().prefix(".svclab-").permissions(usual).tempfile_in(folder)?;
    if let Some(known) = known {
        new.as_file().set_permissions(known.permissions())?;
    }
    Ok(new)
}

/// Writes a whole text to standard output, bypassing its line buffer.
///
/// # Errors
///
/// The error of the system.
pub fn write_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.flush()?;
    File::from(stdout.as_fd().try_clone_to_owned()?).write_all(text.as_bytes())
}

/// Whether standard output is a regular file.
pub fn is_regular_stdout() -> bool {
    let file = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|about| about.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::dash("-")]
    #[case::its_file("/proc/self/fd/1")]
    #[case::its_file_of_a_thread("/dev/fd/1")]
    #[case::link_to_it("/dev/stdout")]
    fn standard_output_is_known_by_all_of_its_names(#[case] name: &str) {
        assert_eq!(Place::of(Path::new(name)).expect("it is there"), Place::Stdout);
    }

    #[test]
    fn only_files_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().canonicalize().expect("it is there").join(name);
        fs::write(at("file"), "old").expect("a file");
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).expect("a FIFO");
        for (link, to) in [("link", "file"), ("lost", "new"), ("device", "/dev/null"), ("out", "/dev/stderr")] {
            symlink(to, at(link)).expect("a link");
        }
        let place = |name: &str| Place::of(&at(name)).expect("a place");
        assert_eq!(place("file"), Place::File(at("file")));
        assert_eq!(place("link"), Place::File(at("file")));
        assert_eq!(place("lost"), Place::File(at("new")));
        assert_eq!(place("fifo"), Place::Open(at("fifo")));
        assert_eq!(place("device"), Place::Open("/dev/null".into()));
        let own = format!("/proc/{}/fd/2", std::process::id());
        assert_eq!(place("out"), Place::Open(own.into()));
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("private"), "old").expect("a file");
        fs::set_permissions(at("private"), fs::Permissions::from_mode(0o600)).expect("it is ours");
        replace(&at("private"), b"new").expect("it is replaced");
        assert_eq!(fs::read(at("private")).expect("it is there"), b"new");
        assert_eq!(fs::metadata(at("private")).expect("it is there").permissions().mode() & 0o777, 0o600);
        fs::write(at("victim"), "old").expect("a file");
        symlink("victim", at("planted")).expect("a link");
        replace(&at("planted"), b"new").expect("it is replaced");
        assert_eq!(fs::read(at("victim")).expect("it is there"), b"old");
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
}
