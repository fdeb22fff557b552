//! The programs of a machine, with all that they load: svclab itself, and what it calls.

use std::path::{Path, PathBuf};

use svclab_rules::cluster::{Family, ProxyMode};

use super::VmError;
use super::architecture::{EXTENSIONS, LIBRARIES};
use super::container::image;
use super::elf;
use super::gathered::Gathered;
use super::initramfs::Initramfs;
use super::tree::{Found, Tree, fingerprint};
use crate::lab::Backend;

/// Folders of programs, in the order in which they are searched.
pub(super) const PROGRAMS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Files that programs read.
const SETTINGS: [&str; 4] = ["/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/iproute2/rt_tables"];

/// Where svclab is in a machine: the kernel starts it as the first process.
const INIT: &str = "/init";

/// Where the programs of netfilter are from.
#[derive(Debug)]
pub(super) enum Source {
    /// A folder: of this machine, or one that is laid out like a root.
    Folder(Tree),
    /// The image of a container, which is read when it is needed.
    Image(PathBuf),
}

impl Source {
    /// What is asked for, or this machine.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub(super) fn find(userland: Option<&Path>) -> Result<Self, VmError> {
        let Some(path) = userland else { return Ok(Self::Folder(Tree::host())) };
        let found = path.metadata().map_err(|source| VmError::Unreadable { file: path.to_owned(), source })?;
        Ok(if found.is_dir() { Self::Folder(Tree::Folder(path.to_owned())) } else { Self::Image(path.to_owned()) })
    }

    /// What changes with the files that are taken.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        let mut all = match self {
            Self::Image(file) => vec![fingerprint(file)],
            Self::Folder(tree) => {
                let programs = wanted().into_iter().filter_map(|program| program_in(tree, program.name));
                let programs = programs.map(|found| found.path).chain(extensions(tree));
                // Libraries are found while they are gathered. A folder changes when one in it is replaced.
                let others = LIBRARIES.iter().chain(&SETTINGS).map(PathBuf::from);
                programs.chain(others).map(|path| tree.fingerprint(&path)).collect()
            }
        };
        // svclab's own libraries are this machine's.
        all.extend(LIBRARIES.iter().map(|folder| fingerprint(Path::new(folder))));
        all
    }

    /// The files of it.
    ///
    /// # Errors
    ///
    /// If an image cannot be read as one.
    pub(super) fn tree(self) -> Result<Tree, VmError> {
        match self {
            Self::Folder(tree) => Ok(tree),
            Self::Image(file) => image(&file),
        }
    }
}

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
    /// That of iptables-nft which does the same, for the programs that may be a [`WRAPPER`].
    of_nft: Option<&'static str>,
    /// Whether labs cannot do without it.
    is_needed: bool,
}

fn wanted() -> Vec<Program> {
    let backends = [Backend::System, Backend::Nft, Backend::Legacy];
    let calls = |backend: Backend, family| [backend.program(ProxyMode::Iptables, family), backend.saver(family)];
    let of_iptables = backends.into_iter().flat_map(|backend| {
        Family::ALL.into_iter().flat_map(move |family| {
            let is_system = backend == Backend::System;
            let by_nft = calls(Backend::Nft, family).map(|name| is_system.then_some(name));
            calls(backend, family).into_iter().zip(by_nft).map(move |(name, of_nft)| Program {
                name,
                of_nft,
                is_needed: is_system,
            })
        })
    });
    let others = ["nft", "conntrack"].map(|name| Program { name, of_nft: None, is_needed: true });
    // It shows the state of a lab whose test failed.
    of_iptables.chain(others).chain([Program { name: "ip", of_nft: None, is_needed: false }]).collect()
}

/// What images of kube-proxy have in the place of iptables' programs: it chooses an implementation when it is called first, by the
/// rules of the node, and puts links in its own place. Where there are no rules, that is iptables-nft, whose links are made here.
const WRAPPER: &str = "iptables-wrapper";
/// Where these links are: before all others.
const FIRST_IN_PATH: &str = PROGRAMS[0];

impl Userland<'_> {
    /// Puts the programs in an initial file system.
    ///
    /// # Errors
    ///
    /// If one that is needed, or a library of it, is missing.
    pub(super) fn add_to(&self, files: &mut Initramfs) -> Result<(), VmError> {
        let (host, tree) = (Tree::host(), self.tree);
        let mut gathered = Gathered::new(files, self.newest_glibc(&host));
        // Its file may have been replaced since it was started: this is a path to the one that runs.
        gathered.add_as(Path::new(INIT), &host, self.svclab)?;
        for Program { name, of_nft, is_needed } in wanted() {
            let found = match program_in(tree, name) {
                Some(found) => found,
                None if is_needed => return Err(missing(name, tree)),
                None => continue,
            };
            match of_nft.filter(|_| found.path.ends_with(WRAPPER)) {
                Some(of_nft) => {
                    let chosen = program_in(tree, of_nft).ok_or_else(|| missing(of_nft, tree))?;
                    gathered.add(tree, &chosen)?;
                    gathered.link(&Path::new(FIRST_IN_PATH).join(name), &chosen.path);
                }
                None => gathered.add(tree, &found)?,
            }
        }
        let settings = SETTINGS.iter().filter_map(|path| tree.find(Path::new(path)));
        let extensions = extensions(tree);
        let extensions = extensions.iter().filter_map(|path| tree.find(path));
        settings.chain(extensions).try_for_each(|found| gathered.add(tree, &found))
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
}

fn program_in(tree: &Tree, name: &str) -> Option<Found> {
    PROGRAMS.iter().find_map(|folder| tree.find(&Path::new(folder).join(name)))
}

fn extensions(tree: &Tree) -> Vec<PathBuf> {
    let all = EXTENSIONS.iter().flat_map(|folder| tree.below(Path::new(folder)));
    all.filter(|path| path.extension().is_some_and(|ending| ending == "so")).collect()
}

fn missing(program: &str, tree: &Tree) -> VmError {
    VmError::NoProgram { program: program.to_owned(), place: tree.place().to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::initramfs::listing::entries;
    use super::super::tree::Entry;
    use super::*;

    /// The programs of this machine, with the libraries that they need and the extensions of iptables.
    #[test]
    fn programs_bring_what_they_load() {
        let mut files = Initramfs::new();
        let host = Tree::host();
        Userland { tree: &host, svclab: Path::new("/proc/self/exe") }.add_to(&mut files).expect("they are installed");
        let entries = entries(&files.pack().expect("files"));
        let has = |name: &str, mode: u32| {
            entries.iter().any(|(path, found, _)| Path::new(path).ends_with(name) && *found == mode)
        };
        let (program, library, link) = (0o100_755, 0o100_644, 0o120_777);
        assert!(entries.iter().any(|(path, mode, _)| path == "init" && *mode == program));
        for (name, mode) in
            [("nft", program), ("conntrack", program), ("libxt_comment.so", library), ("libmnl.so.0", link)]
        {
            assert!(has(name, mode), "{name} is missing");
        }
        for name in ["iptables-restore", "ip6tables-save", "iptables-nft-restore", "ip6tables-legacy-save"] {
            assert!(has(name, link) || has(name, program), "{name} is missing");
        }
        let shown = Source::find(None).expect("this machine").fingerprints();
        for name in ["/nft ", "/libxt_comment.so ", "/etc/protocols "] {
            assert!(shown.iter().any(|one| one.contains(name)), "{name}: {shown:?}");
        }
    }

    /// An image of kube-proxy calls iptables by a script that is not in a machine.
    #[test]
    fn the_wrapper_of_an_image_leads_to_iptables_nft() {
        let entry = |bytes: &str| Entry::File { bytes: bytes.into(), is_executable: true };
        let mut all: BTreeMap<PathBuf, Entry> = BTreeMap::new();
        for name in ["iptables-restore", "iptables-save", "ip6tables-restore", "ip6tables-save"] {
            all.insert(Path::new("/usr/sbin").join(name), Entry::Link(WRAPPER.into()));
            all.insert(Path::new("/usr/sbin").join(name.replacen('-', "-nft-", 1)), entry(name));
        }
        all.insert(Path::new("/usr/sbin").join(WRAPPER), entry("#!/bin/sh"));
        all.extend(["nft", "conntrack"].map(|name| (Path::new("/usr/sbin").join(name), entry(name))));
        let tree = Tree::Archive { files: all, from: PathBuf::from("image.tar") };
        let mut files = Initramfs::new();
        Userland { tree: &tree, svclab: Path::new("/proc/self/exe") }.add_to(&mut files).expect("all are there");
        let entries = entries(&files.pack().expect("files"));
        let link = entries.iter().find(|(path, ..)| path == "usr/local/sbin/ip6tables-save").expect("a link");
        assert_eq!((link.1, link.2.as_slice()), (0o120_777, b"/usr/sbin/ip6tables-nft-save".as_slice()));
        assert!(entries.iter().all(|(path, ..)| !path.ends_with(WRAPPER)));
    }

    #[test]
    fn a_folder_without_programs_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = Tree::Folder(folder.path().to_owned());
        let userland = Userland { tree: &tree, svclab: Path::new("/proc/self/exe") };
        let error = userland.add_to(&mut Initramfs::new()).expect_err("it is empty").to_string();
        assert_eq!(error, format!("iptables-restore is not in {}", folder.path().display()));
    }
}
