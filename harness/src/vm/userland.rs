//! The programs of a machine, with all that they load: svclab itself, and what it calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use svclab_rules::cluster::{Family, ProxyMode};

use super::VmError;
use super::elf;
use super::initramfs::Initramfs;
use super::tree::{Found, Tree};
use crate::lab::Backend;

/// Folders of programs, in the order in which they are searched.
pub(super) const PROGRAMS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Folders in which libraries are looked for, as the loaders of glibc and musl do without settings.
pub(super) const LIBRARIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib/x86_64-linux-gnu",
];

/// Folders of the extensions that iptables loads.
const EXTENSIONS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/xtables",
    "/usr/lib64/xtables",
    "/usr/lib/xtables",
    "/usr/local/lib/xtables",
    "/lib/xtables",
];

/// Files that programs read.
const SETTINGS: [&str; 4] = ["/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/iproute2/rt_tables"];

/// Where svclab is in a machine: the kernel starts it as the first process.
const INIT: &str = "/init";

/// Programs from a tree.
pub(super) struct Userland<'t> {
    /// Where the programs of netfilter are from.
    pub(super) tree: &'t Tree,
    /// svclab, as a file of this machine.
    pub(super) svclab: &'t Path,
}

/// A program that a lab calls.
struct Program {
    name: &'static str,
    /// Whether labs cannot do without it.
    is_needed: bool,
}

fn wanted() -> Vec<Program> {
    let backends = [Backend::System, Backend::Nft, Backend::Legacy];
    let restoring = backends.into_iter().flat_map(|backend| {
        Family::ALL.into_iter().flat_map(move |family| {
            let is_needed = backend == Backend::System;
            [backend.program(ProxyMode::Iptables, family), backend.saver(family)]
                .map(|name| Program { name, is_needed })
        })
    });
    let others = ["nft", "conntrack"].map(|name| Program { name, is_needed: true });
    // It shows the state of a lab whose test failed.
    restoring.chain(others).chain([Program { name: "ip", is_needed: false }]).collect()
}

/// What images of kube-proxy have in the place of iptables' programs: it chooses an implementation when it is called first, by the
/// rules of the node, and puts links in its own place. Where there are no rules, that is iptables-nft, whose links are made here.
const WRAPPER: &str = "iptables-wrapper";
impl Userland<'_> {
    /// What changes with the files of a folder that are taken.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        let programs = wanted().into_iter().filter_map(|program| self.program(program.name));
        let mut all: Vec<String> = programs.map(|found| self.tree.fingerprint(&found.path)).collect();
        all.extend(self.extensions().iter().map(|path| self.tree.fingerprint(path)));
        // Libraries are found while they are gathered. A folder changes when one in it is replaced.
        let trees = [self.tree, &Tree::host()];
        all.extend(trees.iter().flat_map(|tree| LIBRARIES.map(|folder| tree.fingerprint(Path::new(folder)))));
        all
    }

    /// Puts the programs in an initial file system.
    ///
    /// # Errors
    ///
    /// If one that is needed, or a library of it, is missing.
    pub(super) fn add_to(&self, files: &mut Initramfs) -> Result<(), VmError> {
        let host = Tree::host();
        let mut gathered = Gathered { tree: &host, glibc: self.newest_glibc(&host), files, seen: BTreeSet::new() };
        // Its file may have been replaced since it was started.
        let bytes =
            fs::read(self.svclab).map_err(|source| VmError::Unreadable { file: self.svclab.to_owned(), source })?;
        gathered.libraries(self.svclab, &bytes)?;
        gathered.files.file(Path::new(INIT), elf::stripped(bytes), true);
        gathered.tree = self.tree;
        for Program { name, is_needed } in wanted() {
            match self.program(name) {
                Some(found) if found.path.ends_with(WRAPPER) => {
                    let of_nft = name.replacen("tables-", "tables-nft-", 1);
                    let chosen = self.program(&of_nft).ok_or_else(|| missing(&of_nft, self.tree))?;
                    gathered.add(&chosen)?;
                    gathered.files.link(&Path::new(PROGRAMS[0]).join(name), &chosen.path);
                }
                Some(found) => gathered.add(&found)?,
                None if is_needed => return Err(missing(name, self.tree)),
                None => {}
            }
        }
        let settings = SETTINGS.iter().filter_map(|path| self.tree.find(Path::new(path)));
        let extensions = self.extensions();
        let extensions = extensions.iter().filter_map(|path| self.tree.find(path));
        settings.chain(extensions).try_for_each(|found| gathered.add(&found))
    }

    /// The tree that has the newest GNU C library: programs also work with a newer one than that of their own tree, and there can be
    /// only one in a file system.
    fn newest_glibc<'h>(&self, host: &'h Tree) -> &'h Tree
    where
        Self: 'h,
    {
        let release = |tree: &Tree| {
            let found = LIBRARIES.iter().find_map(|folder| tree.find(&Path::new(folder).join(elf::LIBC)))?;
            tree.read(&found.path).ok().and_then(|bytes| elf::glibc_release(&bytes))
        };
        if release(self.tree) > release(host) { self.tree } else { host }
    }

    fn program(&self, name: &str) -> Option<Found> {
        PROGRAMS.iter().find_map(|folder| self.tree.find(&Path::new(folder).join(name)))
    }

    fn extensions(&self) -> Vec<PathBuf> {
        let all = EXTENSIONS.iter().flat_map(|folder| self.tree.below(Path::new(folder)));
        all.filter(|path| path.extension().is_some_and(|ending| ending == "so")).collect()
    }
}

fn missing(program: &str, tree: &Tree) -> VmError {
    VmError::NoProgram { program: program.to_owned(), place: tree.place().to_owned() }
}

/// Files that are gathered with the libraries that they need.
struct Gathered<'g> {
    /// Where files are from.
    tree: &'g Tree,
    /// Where those of the GNU C library are from.
    glibc: &'g Tree,
    files: &'g mut Initramfs,
    /// Those that are in, or about to be.
    seen: BTreeSet<PathBuf>,
}

impl Gathered<'_> {
    /// Adds a file, the links that lead to it, and what it needs.
    fn add(&mut self, found: &Found) -> Result<(), VmError> {
        found.links.iter().for_each(|(link, target)| self.files.link(link, target));
        if !self.seen.insert(found.path.clone()) {
            return Ok(());
        }
        let bytes = self.read(&found.path)?;
        self.libraries(&found.path, &bytes)?;
        self.files.file(&found.path, elf::stripped(bytes), self.tree.is_executable(&found.path));
        Ok(())
    }

    fn libraries(&mut self, of: &Path, bytes: &[u8]) -> Result<(), VmError> {
        let needs = elf::needs(bytes);
        let origin = of.parent().unwrap_or(Path::new("/"));
        let own: Vec<String> =
            needs.folders.iter().map(|folder| folder.replace("$ORIGIN", &origin.to_string_lossy())).collect();
        let interpreter = needs.interpreter.map(|path| path.to_string_lossy().into_owned());
        for library in interpreter.iter().chain(&needs.libraries) {
            let of_glibc = Path::new(library).file_name().is_some_and(|name| elf::is_of_glibc(&name.to_string_lossy()));
            let tree = if of_glibc { self.glibc } else { self.tree };
            // The interpreter has a path of its own.
            let folders = own.iter().map(String::as_str).chain(LIBRARIES);
            let found = folders.into_iter().find_map(|folder| tree.find(&Path::new(folder).join(library)));
            let lacks =
                || VmError::NoLibrary { of: of.to_owned(), library: library.clone(), place: tree.place().to_owned() };
            let found = found.ok_or_else(lacks)?;
            let tree = std::mem::replace(&mut self.tree, tree);
            let added = self.add(&found);
            self.tree = tree;
            added?;
        }
        Ok(())
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, VmError> {
        self.tree.read(path).map_err(|source| VmError::Unreadable { file: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs of this machine, with the libraries that they need and the extensions of iptables.
    #[test]
    fn programs_bring_what_they_load() {
        let mut files = Initramfs::default();
        let host = Tree::host();
        let userland = Userland { tree: &host, svclab: Path::new("/proc/self/exe") };
        userland.add_to(&mut files).expect("what labs need is installed");
        let packed = files.pack().expect("files");
        let has = |name: &str| packed.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        for name in ["init", "iptables-restore", "sbin/nft", "conntrack", "libxt_comment.so", "libmnl.so.0"] {
            assert!(has(name), "{name} is missing");
        }
        let shown = userland.fingerprints();
        assert!(shown.len() > 50 && shown.iter().any(|one| one.contains("libxt_comment.so")), "{shown:?}");
    }

    #[test]
    fn a_folder_without_programs_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = Tree::Folder(folder.path().to_owned());
        let userland = Userland { tree: &tree, svclab: Path::new("/proc/self/exe") };
        let error = userland.add_to(&mut Initramfs::default()).expect_err("it is empty").to_string();
        assert_eq!(error, format!("iptables-restore is not in {}", folder.path().display()));
    }
}
