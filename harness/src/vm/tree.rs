//! Files below a root: a folder of this machine, or what an archive has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::compression::invalid;
use super::xz::LIMIT;
use crate::text::printable;

/// Files below a root, by absolute paths without links that lead out of it.
#[derive(Debug, Clone)]
pub(super) enum Tree {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The content of an archive.
    Archive {
        /// Its files and links by path: `/boot/vmlinuz-6.1.0`.
        files: BTreeMap<PathBuf, Entry>,
        /// What it was read from.
        from: PathBuf,
    },
}

/// What an archive has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A regular file.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Whether it is executable.
        is_executable: bool,
    },
    /// A symbolic link, with its target.
    Link(PathBuf),
}

/// What lies at a path.
enum Kind {
    File,
    Folder,
    Link(PathBuf),
}

/// A regular file of a tree, and the links on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The path without links.
    pub(super) path: PathBuf,
    /// The links that were followed, each with its target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
}

/// The most links that are followed, as the kernel has it (`MAXSYMLINKS`).
pub(super) const LINKS: usize = 40;

impl Tree {
    /// The tree of the host itself.
    pub(super) fn host() -> Self {
        Self::Folder(PathBuf::from("/"))
    }

    /// The files of two archives, of which the second has those that the first has not.
    pub(super) fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Archive { mut files, from }, Self::Archive { files: more, .. }) => {
                more.into_iter().for_each(|(path, entry)| _ = files.entry(path).or_insert(entry));
                Self::Archive { files, from }
            }
            (tree, _) => tree,
        }
    }

    /// What it is, for messages.
    pub(super) fn place(&self) -> &Path {
        match self {
            Self::Folder(root) => root,
            Self::Archive { from, .. } => from,
        }
    }

    /// Where a file is, for messages.
    pub(super) fn place_of(&self, path: &Path) -> PathBuf {
        on_host(self.place(), path)
    }

    /// The regular file that a path leads to, if there is one.
    pub(super) fn find(&self, path: &Path) -> Option<Found> {
        let mut links = Vec::new();
        let mut at = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = parts(path);
        rest.reverse();
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            match self.kind(&next)? {
                Kind::Link(target) => {
                    if links.len() == LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    rest.extend(parts(&target).into_iter().rev());
                    links.push((next, target));
                }
                Kind::Folder => at = next,
                Kind::File => return rest.is_empty().then_some(Found { path: next, links }),
            }
        }
        None
    }

    /// All regular files and links below a folder, without following links, by path.
    pub(super) fn below(&self, folder: &Path) -> Vec<PathBuf> {
        match self {
            Self::Archive { files, .. } => files.keys().filter(|path| path.starts_with(folder)).cloned().collect(),
            Self::Folder(root) => {
                let mut found = Vec::new();
                let mut folders = vec![folder.to_owned()];
                while let Some(folder) = folders.pop() {
                    for entry in fs::read_dir(on_host(root, &folder)).into_iter().flatten().flatten() {
                        let path = folder.join(entry.file_name());
                        match entry.file_type() {
                            Ok(kind) if kind.is_dir() => folders.push(path),
                            Ok(kind) if kind.is_file() || kind.is_symlink() => found.push(path),
                            _ => {}
                        }
                    }
                }
                found.sort();
                found
            }
        }
    }

    /// The content of a regular file, by its path without links.
    ///
    /// # Errors
    ///
    /// Those of the system, and `NotFound`.
    pub(super) fn read(&self, path: &Path) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Folder(root) => content(&on_host(root, path)).map(Cow::from),
            Self::Archive { files, .. } => match files.get(path) {
                Some(Entry::File { bytes, .. }) => Ok(Cow::from(bytes)),
                _ => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }

    /// A reader of a regular file, by its path without links.
    ///
    /// # Errors
    ///
    /// Those of the system, and `NotFound`.
    pub(super) fn open(&self, path: &Path) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Self::Folder(root) => File::open(on_host(root, path)).map(|file| Box::new(file) as _),
            Self::Archive { .. } => self.read(path).map(|bytes| Box::new(Cursor::new(bytes)) as _),
        }
    }

    /// Whether a regular file, by its path without links, is executable.
    pub(super) fn is_executable(&self, path: &Path) -> bool {
        match self {
            Self::Folder(root) => fs::metadata(on_host(root, path)).is_ok_and(|found| found.mode() & 0o111 != 0),
            Self::Archive { files, .. } => {
                matches!(files.get(path), Some(Entry::File { is_executable: true, .. }))
            }
        }
    }

    /// What changes when a file does: its place, size and time; of an archive, those of the archive.
    pub(super) fn fingerprint(&self, path: &Path) -> String {
        match self {
            Self::Folder(root) => fingerprint(&on_host(root, path)),
            Self::Archive { from, .. } => format!("{} in {}", printable(path), fingerprint(from)),
        }
    }

    fn kind(&self, path: &Path) -> Option<Kind> {
        match self {
            Self::Folder(root) => {
                let path = on_host(root, path);
                let kind = path.symlink_metadata().ok()?.file_type();
                match () {
                    () if kind.is_symlink() => fs::read_link(path).ok().map(Kind::Link),
                    () if kind.is_dir() => Some(Kind::Folder),
                    () => kind.is_file().then_some(Kind::File),
                }
            }
            Self::Archive { files, .. } => match files.get(path) {
                Some(Entry::Link(target)) => Some(Kind::Link(target.clone())),
                Some(Entry::File { .. }) => Some(Kind::File),
                None => {
                    let next = files.range(path.to_owned()..).next();
                    next.is_some_and(|(first, _)| first.starts_with(path)).then_some(Kind::Folder)
                }
            },
        }
    }
}

/// The content of a regular file of this machine.
///
/// # Errors
///
/// Those of the system, and if it is too large, or no regular file: others may have no end.
pub(super) fn content(path: &Path) -> io::Result<Vec<u8>> {
    let file = small_file(path)?;
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT { Err(too_large()) } else { Ok(bytes) }
}

/// Opens a regular file of this machine that is not too large.
///
/// # Errors
///
/// As [`content`].
pub(super) fn small_file(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(invalid("it is not a regular file".to_owned()));
    }
    if found.len() > LIMIT {
        return Err(too_large());
    }
    File::open(path)
}

fn too_large() -> io::Error {
    invalid("it is larger than 2 GiB".to_owned())
}

/// The identity of a file of this machine, with its size and time.
pub(super) fn fingerprint(path: &Path) -> String {
    let of = |found: fs::Metadata| {
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        format!("{} {} {:?}", found.ino(), found.len(), changed.unwrap_or_default())
    };
    format!("{} {}", printable(path), fs::metadata(path).map(of).unwrap_or_default())
}

/// A path below the root, as this machine has it.
fn on_host(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A path from the root, in which `..` leads to the folder above; nothing is above the root.
pub(super) fn without_steps_upwards(path: &Path) -> PathBuf {
    parts(path).iter().fold(PathBuf::from("/"), |mut at, part| {
        if part == Path::new("..") {
            _ = at.pop()
        } else {
            at.push(part)
        }
        at
    })
}

/// The names in a path, and its steps upwards.
fn parts(path: &Path) -> Vec<PathBuf> {
    let of = |part: Component<'_>| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> Entry {
        Entry::File { bytes: bytes.to_vec(), is_executable: true }
    }

    fn archive(entries: &[(&str, Entry)]) -> Tree {
        let files = entries.iter().map(|(path, entry)| (PathBuf::from(path), entry.clone())).collect();
        Tree::Archive { files, from: PathBuf::from("image.tar") }
    }

    #[test]
    fn links_are_followed_inside_of_the_tree() {
        let tree = archive(&[
            ("/etc/alternatives/iptables", Entry::Link("/usr/sbin/iptables-nft".into())),
            ("/sbin", Entry::Link("usr/sbin".into())),
            ("/usr/sbin/iptables", Entry::Link("../../../../etc/alternatives/iptables".into())),
            ("/usr/sbin/iptables-nft", file(b"nft")),
        ]);
        let found = tree.find(Path::new("/sbin/iptables")).expect("it is there");
        assert_eq!(found.path, Path::new("/usr/sbin/iptables-nft"));
        let links: Vec<_> = found.links.iter().map(|(link, _)| link.display().to_string()).collect();
        assert_eq!(links, ["/sbin", "/usr/sbin/iptables", "/etc/alternatives/iptables"]);
        assert_eq!(tree.read(&found.path).expect("a file").as_ref(), b"nft");
    }

    #[test]
    fn a_loop_of_links_leads_nowhere() {
        let tree = archive(&[("/a", Entry::Link("b".into())), ("/b", Entry::Link("a".into()))]);
        assert_eq!(tree.find(Path::new("/a")), None);
        assert_eq!(tree.find(Path::new("/none")), None);
    }

    #[test]
    fn a_folder_and_an_archive_are_alike() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("usr/lib")).expect("its own");
        fs::write(folder.path().join("usr/lib/a.so.1"), b"a").expect("its own");
        std::os::unix::fs::symlink("usr/lib", folder.path().join("lib")).expect("its own");
        let on_disk = Tree::Folder(folder.path().to_owned());
        let packed = archive(&[("/lib", Entry::Link("usr/lib".into())), ("/usr/lib/a.so.1", file(b"a"))]);
        for tree in [on_disk, packed] {
            let found = tree.find(Path::new("/lib/a.so.1")).expect("it is there");
            assert_eq!((found.path.as_path(), found.links.len()), (Path::new("/usr/lib/a.so.1"), 1));
            assert_eq!(tree.below(Path::new("/usr")), [PathBuf::from("/usr/lib/a.so.1")]);
        }
    }
}
