//! Files for a machine, gathered with the libraries that they need.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::VmError;
use super::architecture::LIBRARIES;
use super::elf;
use super::initramfs::Initramfs;
use super::tree::{Found, Tree};

/// Where files of a machine are put.
pub(super) struct Gathered<'g> {
    files: &'g mut Initramfs,
    /// Where those of the GNU C library are from: there can be only one of them.
    glibc: &'g Tree,
    /// Those that are in, or about to be.
    seen: BTreeSet<PathBuf>,
}

impl<'g> Gathered<'g> {
    pub(super) fn new(files: &'g mut Initramfs, glibc: &'g Tree) -> Self {
        Self { files, glibc, seen: BTreeSet::new() }
    }

    /// Adds a file of a tree, the links that lead to it, and what it needs.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or the tree lacks a library.
    pub(super) fn add(&mut self, tree: &Tree, found: &Found) -> Result<(), VmError> {
        found.links.iter().for_each(|(link, target)| self.link(link, target));
        if self.seen.insert(found.path.clone()) {
            self.add_as(&found.path, tree, &found.path)?;
        }
        Ok(())
    }

    /// Adds a file of a tree under a name, and what it needs.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub(super) fn add_as(&mut self, name: &Path, tree: &Tree, file: &Path) -> Result<(), VmError> {
        let unreadable = |source| VmError::UnreadableProgram { file: tree.place_of(file), source };
        let bytes = tree.open(file).and_then(elf::loaded).map_err(unreadable)?;
        self.libraries(tree, file, &bytes)?;
        self.files.file(name, bytes, tree.is_executable(file));
        Ok(())
    }

    /// Adds a link.
    pub(super) fn link(&mut self, link: &Path, target: &Path) {
        self.files.link(link, target);
    }

    fn libraries(&mut self, tree: &Tree, of: &Path, bytes: &[u8]) -> Result<(), VmError> {
        let needs = elf::needs(bytes);
        let origin = of.parent().unwrap_or(Path::new("/"));
        let own: Vec<String> =
            needs.folders.iter().map(|folder| folder.replace("$ORIGIN", &origin.to_string_lossy())).collect();
        let interpreter = needs.interpreter.map(|path| path.to_string_lossy().into_owned());
        for library in interpreter.iter().chain(&needs.libraries) {
            let of_glibc = Path::new(library).file_name().is_some_and(|name| elf::is_of_glibc(&name.to_string_lossy()));
            let tree = if of_glibc { self.glibc } else { tree };
            // The interpreter has a path of its own.
            let folders = own.iter().map(String::as_str).chain(LIBRARIES);
            let found = folders.into_iter().find_map(|folder| tree.find(&Path::new(folder).join(library)));
            let lacks =
                || VmError::NoLibrary { of: of.to_owned(), library: library.clone(), place: tree.place().to_owned() };
            self.add(tree, &found.ok_or_else(lacks)?)?;
        }
        Ok(())
    }
}
