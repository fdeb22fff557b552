//! The kernel modules that labs need, with those that they need themselves, in the order in which they can be loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::VmError;
use super::compression::{invalid, plain};
use super::elf;
use super::tree::Tree;

/// Modules without which the machine cannot talk to svclab.
const CHANNEL: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Modules without which there is no lab.
const NEEDED: [&str; 6] = ["veth", "bridge", "br_netfilter", "vxlan", "nf_conntrack", "nf_nat"];

/// Those that are loaded where the kernel has them; a name that ends with `*` stands for all that start with it. Connection-tracking
/// helpers of protocols are not among them: no scenario has such a connection. Nor is `sctp`, as on a node where no process has opened
/// such a socket: in a lab a process speaks SCTP by a raw socket, and the kernel would reply to the same packets.
const IF_THERE: &[&str] = &[
    "dummy",
    "ipv6",
    "nf_conntrack_netlink",
    "nf_tables",
    "nfnetlink",
    "nfnetlink_acct",
    "nfnetlink_log",
    "nfnetlink_queue",
    "nf_log_*",
    "nf_reject_*",
    "nf_flow_table",
    "nf_tproxy_*",
    "nf_socket_*",
    "nf_dup_*",
    "x_tables",
    "ip_tables",
    "ip6_tables",
    "iptable_*",
    "ip6table_*",
    "ipt_*",
    "ip6t_*",
    "xt_*",
    "nft_*",
    "ip_set",
    "ip_set_*",
    "nf_defrag_*",
    "sch_netem",
    "sch_tbf",
];

/// All that are loaded, in the order in which they are looked for: first the one through which failures of the others are reported.
fn loaded() -> impl Iterator<Item = &'static str> {
    CHANNEL.iter().chain(&NEEDED).chain(IF_THERE).copied()
}

/// The folders of modules that these are in, below `kernel/`, and those that have what they need.
const FOLDERS: [&str; 8] =
    ["net", "drivers/net", "drivers/char", "drivers/virtio", "drivers/block", "lib", "crypto", "arch"];

/// The list of those that are part of the image, in a kernel's folder.
const BUILTIN: &str = "modules.builtin";

/// The modules of a kernel by name.
pub(super) struct Modules<'t> {
    tree: &'t Tree,
    /// `/lib/modules/RELEASE`.
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    /// Those that are part of the kernel image; `None` where that is not known.
    builtin: Option<BTreeSet<String>>,
}

/// A module as it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// Not compressed.
    pub(super) bytes: Vec<u8>,
}

impl<'t> Modules<'t> {
    /// The modules in a folder of a tree: `/lib/modules/RELEASE`.
    pub(super) fn of(tree: &'t Tree, folder: &Path) -> Self {
        let places = FOLDERS.map(|below| folder.join("kernel").join(below));
        let mut all: Vec<PathBuf> = places.iter().flat_map(|place| tree.below(place)).collect();
        // Those that were built or updated on the machine take the place of the kernel's own (depmod.d(5)).
        all.extend(["extra", "updates"].iter().flat_map(|below| tree.below(&folder.join(below))));
        let files = all.into_iter().filter_map(|path| Some((name(&path)?, path))).collect();
        let builtin = tree.read(&folder.join(BUILTIN)).ok();
        let builtin = builtin
            .map(|text| String::from_utf8_lossy(&text).lines().filter_map(|line| name(Path::new(line))).collect());
        Self { tree, folder: folder.to_owned(), files, builtin }
    }

    /// The needed modules that are neither part of the kernel nor files; none where it is not known what is part of it.
    pub(super) fn lacking(&self) -> Vec<&'static str> {
        let Some(builtin) = &self.builtin else { return Vec::new() };
        let is_there = |name: &&&str| self.files.contains_key(**name) || builtin.contains(**name);
        CHANNEL.iter().chain(&NEEDED).filter(|name| !is_there(name)).copied().collect()
    }

    /// What changes with the modules.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        let list = self.builtin.is_some().then(|| self.tree.fingerprint(&self.folder.join(BUILTIN)));
        self.files.values().map(|path| self.tree.fingerprint(path)).chain(list).collect()
    }

    /// The modules that labs need, each after those that it depends on; those of the channel first.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub(super) fn closure(&self) -> Result<Vec<Module>, VmError> {
        let mut closure = Closure { modules: self, read: BTreeSet::new(), loaded: Vec::new() };
        for wanted in loaded() {
            let is_wanted = |name: &str| match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == wanted,
            };
            for name in self.files.keys().filter(|name| is_wanted(name)) {
                closure.add(name)?;
            }
        }
        Ok(closure.loaded)
    }

    fn module(&self, name: &str) -> Result<Option<Vec<u8>>, VmError> {
        let Some(path) = self.files.get(name) else { return Ok(None) };
        let read = || -> io::Result<Vec<u8>> {
            let mut module = Vec::new();
            plain(&self.tree.read(path)?)?.read_to_end(&mut module)?;
            Ok(module)
        };
        let broken = |source| VmError::BrokenModule { file: self.tree.place_of(path), source };
        let module = read().map_err(broken)?;
        if !module.starts_with(b"\x7fELF") {
            return Err(broken(invalid("it is no ELF file".to_owned())));
        }
        Ok(Some(module))
    }
}

/// The modules gathered so far.
struct Closure<'m, 't> {
    modules: &'m Modules<'t>,
    /// Those that are in the list, or will be.
    read: BTreeSet<String>,
    loaded: Vec<Module>,
}

impl Closure<'_, '_> {
    fn add(&mut self, name: &str) -> Result<(), VmError> {
        if !self.read.insert(name.to_owned()) {
            return Ok(());
        }
        // What is no file is part of the kernel; if it is not, loading says so.
        let Some(bytes) = self.modules.module(name)? else { return Ok(()) };
        for other in dependencies(&bytes) {
            self.add(&other)?;
        }
        self.loaded.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

/// The modules that a module needs: those whose symbols it uses, and those to be loaded before it (`softdep`).
fn dependencies(bytes: &[u8]) -> Vec<String> {
    let info = elf::module_info(bytes).unwrap_or_default();
    let of = |(key, value): &(String, String)| -> Vec<String> {
        let names: Vec<&str> = match key.as_str() {
            "depends" => value.split(',').collect(),
            "softdep" => {
                let before = value.split("post:").next().unwrap_or_default();
                before.split_once("pre:").map_or_else(Vec::new, |(_, names)| names.split_whitespace().collect())
            }
            _ => Vec::new(),
        };
        names.into_iter().filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
    };
    info.iter().flat_map(of).collect()
}

/// The name of the module in a file: `nf_conntrack` of `nf-conntrack.ko.xz`.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let start = file.split(".ko").next()?;
    (start.len() < file.len()).then(|| start.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::tree::Entry;
    use super::*;

    /// An ELF file whose only content is a section `.modinfo`.
    fn module(info: &str) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let (info_at, names_at) = (64_u64, 64 + info.len() as u64);
        let sections_at = names_at + names.len() as u64;
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        file.extend([1_u16.to_le_bytes(), 62_u16.to_le_bytes()].concat());
        file.extend(1_u32.to_le_bytes());
        file.extend([0_u64, 0, sections_at].iter().flat_map(|value| value.to_le_bytes()));
        file.extend(0_u32.to_le_bytes());
        file.extend([64_u16, 0, 0, 64, 3, 2].iter().flat_map(|value| value.to_le_bytes()));
        file.extend(info.as_bytes());
        file.extend(names);
        let mut section = |name: u32, kind: u32, at: u64, size: u64| {
            file.extend([name, kind].iter().flat_map(|value| value.to_le_bytes()));
            file.extend([0, 0, at, size].iter().flat_map(|value: &u64| value.to_le_bytes()));
            file.extend([0_u32; 2].iter().flat_map(|value| value.to_le_bytes()));
            file.extend([1_u64, 0].iter().flat_map(|value| value.to_le_bytes()));
        };
        section(0, 0, 0, 0);
        section(1, 1, info_at, info.len() as u64);
        section(10, 3, names_at, names.len() as u64);
        file
    }

    const FOLDER: &str = "/lib/modules/6.1.0";

    fn tree(files: &[(&str, Vec<u8>)]) -> Tree {
        let entry = |(path, bytes): &(&str, Vec<u8>)| {
            (Path::new(FOLDER).join(path), Entry::File { bytes: bytes.clone(), is_executable: false })
        };
        Tree::Archive { files: files.iter().map(entry).collect(), from: PathBuf::from("kernel.deb") }
    }

    fn names(tree: &Tree) -> Vec<String> {
        let modules = Modules::of(tree, Path::new(FOLDER)).closure().expect("modules");
        modules.into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn what_a_module_needs_is_loaded_before_it() {
        let tree = tree(&[
            ("kernel/net/bridge/br_netfilter.ko", module("license=GPL\0depends=bridge\0")),
            ("kernel/net/bridge/bridge.ko", module("depends=stp,llc\0")),
            ("kernel/net/802/stp.ko", module("depends=llc\0")),
            ("kernel/net/llc/llc.ko", module("depends=\0")),
            ("kernel/net/netfilter/nf_conntrack_ftp.ko", module("depends=\0")),
            ("kernel/drivers/net/vxlan/vxlan.ko", module("softdep=pre: crc32c-generic post: other\0depends=\0")),
            ("kernel/crypto/crc32c_generic.ko", module("depends=libcrc32c\0")),
        ]);
        assert_eq!(names(&tree), ["llc", "stp", "bridge", "br_netfilter", "crc32c_generic", "vxlan"]);
    }

    #[test]
    fn compressed_modules_are_read() {
        let plain = module("depends=\0");
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zipped.write_all(&plain).expect("memory");
        let zstd = ruzstd::encoding::compress_to_vec(&plain[..], ruzstd::encoding::CompressionLevel::Fastest);
        let tree = tree(&[
            ("kernel/drivers/net/veth.ko.gz", zipped.finish().expect("memory")),
            ("kernel/drivers/net/dummy.ko.zst", zstd),
        ]);
        let all = Modules::of(&tree, Path::new(FOLDER)).closure().expect("modules");
        assert!(all.len() == 2 && all.iter().all(|module| module.bytes == plain), "{all:?}");
    }

    #[test]
    fn what_is_neither_built_in_nor_a_module_is_lacking() {
        let builtin = b"kernel/drivers/net/veth.ko\nkernel/drivers/virtio/virtio_pci.ko\n".to_vec();
        let tree = tree(&[("modules.builtin", builtin), ("kernel/net/bridge/bridge.ko", module(""))]);
        let lacking = Modules::of(&tree, Path::new(FOLDER)).lacking();
        assert_eq!(lacking, ["virtio_console", "br_netfilter", "vxlan", "nf_conntrack", "nf_nat"]);
        let unknown = Tree::Archive { files: BTreeMap::new(), from: PathBuf::new() };
        assert_eq!(Modules::of(&unknown, Path::new(FOLDER)).lacking(), [""; 0]);
    }

    #[test]
    fn a_broken_module_is_named() {
        let tree = tree(&[("kernel/drivers/net/veth.ko.xz", b"no xz".to_vec())]);
        let error = Modules::of(&tree, Path::new(FOLDER)).closure().expect_err("it is broken").to_string();
        assert_eq!(error, "kernel.deb/lib/modules/6.1.0/kernel/drivers/net/veth.ko.xz: it is no ELF file");
    }
}
