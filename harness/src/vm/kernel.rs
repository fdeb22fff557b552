//! The kernel that is asked for: an image, an installed version, a folder, or a package.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use super::VmError;
use super::archive;
use super::modules::Modules;
use super::tree::{Tree, fingerprint};
use crate::text::path_text;

/// A kernel that was found, but not read.
#[derive(Debug)]
pub(super) enum Located {
    /// An image in a tree, with the trees that its modules may be in.
    Image {
        /// The tree.
        tree: Tree,
        /// The image in it.
        image: PathBuf,
        /// Where modules are, in the order of preference.
        modules: Vec<Tree>,
    },
    /// A package of Debian or Ubuntu.
    Package(PathBuf),
}

/// A kernel with its modules.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The image, as a boot loader loads it.
    pub(super) image: Vec<u8>,
    /// As `uname -r` prints it.
    pub(super) release: String,
    /// Where its modules are.
    tree: Tree,
}

/// Where distributions have the image of an installed version.
const INSTALLED: [&str; 3] = ["/boot/vmlinuz-{}", "/lib/modules/{}/vmlinuz", "/usr/lib/modules/{}/vmlinuz"];

impl Located {
    /// Looks for a kernel.
    ///
    /// # Errors
    ///
    /// If there is none, or several.
    pub(super) fn find(what: &Path) -> Result<Self, VmError> {
        if what.is_dir() {
            return match packages_in(what).as_slice() {
                [] => Self::in_tree(Tree::Folder(what.to_owned())),
                [package] => Ok(Self::Package(package.clone())),
                several => Err(several_images(what, several)),
            };
        }
        if what.extension().is_some_and(|ending| ending == "deb") && what.is_file() {
            return Ok(Self::Package(what.to_owned()));
        }
        if what.is_file() {
            return Ok(Self::file(what));
        }
        let version = what.to_str().filter(|version| !version.contains('/'));
        let places = version.into_iter().flat_map(|version| INSTALLED.map(|place| place.replace("{}", version)));
        let installed = places.map(PathBuf::from).find(|place| place.is_file());
        installed.map(|place| Self::file(&place)).ok_or_else(|| VmError::NoKernel(what.to_string_lossy().into_owned()))
    }

    /// An image of this machine, with modules beside it, in the root that it is in, or the machine's own.
    fn file(image: &Path) -> Self {
        let image = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        let above = image.ancestors().skip(1).take(2).map(|folder| Tree::Folder(folder.to_owned()));
        Self::Image { modules: above.chain([Tree::host()]).collect(), tree: Tree::host(), image }
    }

    /// The only image of a tree: in its folder `boot`, or where it starts.
    fn in_tree(tree: Tree) -> Result<Self, VmError> {
        let is_image = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_named = ["vmlinuz", "bzImage", "vmlinux"].iter().any(|start| name.starts_with(start));
            let is_in_modules =
                path.parent().is_some_and(|folder| folder.parent().is_some_and(|above| above.ends_with("lib/modules")));
            let is_at_top =
                path.parent().is_some_and(|folder| folder == Path::new("/") || folder == Path::new("/boot"));
            is_named && (is_at_top || is_in_modules)
        };
        // Links such as /vmlinuz lead to images that are there anyway.
        let found = tree.below(Path::new("/")).into_iter().filter(is_image).filter_map(|path| tree.find(&path));
        let mut images: Vec<PathBuf> = found.map(|found| found.path).collect();
        images.sort();
        images.dedup();
        match (images.pop(), images.is_empty()) {
            (Some(image), true) => Ok(Self::Image { modules: vec![tree.clone(), Tree::host()], tree, image }),
            (None, _) => Err(VmError::NoImage(tree.place().to_owned())),
            (Some(last), false) => {
                images.push(last);
                Err(several_images(tree.place(), &images))
            }
        }
    }

    /// What changes with the file that is read; [`modules_fingerprint`] is of the others.
    pub(super) fn fingerprint(&self) -> String {
        match self {
            Self::Package(file) => fingerprint(file),
            Self::Image { tree, image, .. } => tree.fingerprint(image),
        }
    }

    /// Reads the kernel.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is none for this machine, or has no modules.
    pub(super) fn read(self) -> Result<Kernel, VmError> {
        match self {
            Self::Package(file) => {
                let mut tree = archive::package(&file)?;
                // Ubuntu has images and modules in packages of their own.
                if !tree.below(Path::new("/lib/modules")).iter().any(|path| path.to_string_lossy().contains(".ko"))
                    && let Some(modules) = modules_package(&file)
                {
                    tree = tree.with(archive::package(&modules)?);
                }
                match Self::in_tree(tree)? {
                    located @ Self::Image { .. } => located.read(),
                    Self::Package(file) => Err(VmError::NoImage(file)),
                }
            }
            Self::Image { tree, image, modules } => {
                let place = tree.place().join(image.strip_prefix("/").unwrap_or(&image));
                let unreadable = |source| VmError::Unreadable { file: place.clone(), source };
                let bytes = tree.read(&image).map_err(unreadable)?;
                let release = release(&bytes, &place)?;
                let places = modules.iter().map(|tree| path_text(tree.place())).collect::<Vec<_>>();
                let is_package = matches!(tree, Tree::Archive { .. });
                let has_modules =
                    |tree: &Tree| FOLDERS.iter().any(|at| !tree.below(&Path::new(at).join(&release)).is_empty());
                let tree = modules.into_iter().find(has_modules);
                let second = if is_package {
                    format!(", and no linux-modules-{release}_*.deb beside it")
                } else {
                    String::new()
                };
                let missing = || VmError::NoModules {
                    release: release.clone(),
                    places: format!("no lib/modules/{release} in {}{second}", places.join(", ")),
                };
                let tree = tree.ok_or_else(missing)?;
                Ok(Kernel { image: bytes, release, tree })
            }
        }
    }
}

/// The packages of kernel images in a folder.
fn packages_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_package = |file: &PathBuf| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("linux-image-") && name.ends_with(".deb")
    };
    let mut packages: Vec<PathBuf> = files.filter(is_package).collect();
    packages.sort();
    packages
}

fn several_images(folder: &Path, images: &[PathBuf]) -> VmError {
    VmError::SeveralImages { folder: folder.to_owned(), images: images.iter().map(|path| path_text(path)).collect() }
}

/// Folders of modules in a tree; the last is for folders that have nothing else.
const FOLDERS: [&str; 3] = ["/lib/modules", "/usr/lib/modules", "/modules"];

impl Kernel {
    /// Its modules.
    pub(super) fn modules(&self) -> Modules<'_> {
        let folders = FOLDERS.map(|at| Path::new(at).join(&self.release));
        let folder = folders.iter().find(|folder| !self.tree.below(folder).is_empty()).unwrap_or(&folders[0]);
        Modules::of(&self.tree, folder)
    }
}

/// Ubuntu's package of modules beside its package of an image: `linux-modules-6.8.0-31-generic_6.8.0-31.31_amd64.deb` beside
/// `linux-image-unsigned-6.8.0-31-generic_6.8.0-31.31_amd64.deb`.
fn modules_package(image: &Path) -> Option<PathBuf> {
    let name = image.file_name()?.to_str()?;
    let rest = name.strip_prefix("linux-image-unsigned-").or_else(|| name.strip_prefix("linux-image-"))?;
    Some(image.with_file_name(format!("linux-modules-{rest}"))).filter(|file| file.is_file())
}

/// Places in an image for x86 (Documentation/arch/x86/boot.rst): its signature, and where its version is, from [`SETUP`] on.
const SIGNATURE: std::ops::Range<usize> = 0x202..0x206;
const VERSION: std::ops::Range<usize> = 0x20e..0x210;
const SETUP: usize = 0x200;
/// The signature of an image for 64-bit ARM (Documentation/arch/arm64/booting.rst).
const ARM: std::ops::Range<usize> = 0x38..0x3c;

/// The release of an image: what its version starts with.
fn release(image: &[u8], file: &Path) -> Result<String, VmError> {
    let not_one = |what| VmError::NotAnImage { file: file.to_owned(), what };
    let other = |found: &str| VmError::OtherArchitecture { file: file.to_owned(), found: found.to_owned(), own: ARCH };
    if image.get(SIGNATURE) != Some(b"HdrS") {
        return Err(match image {
            _ if image.get(ARM) == Some(b"ARM\x64") => other("aarch64"),
            [0x7f, b'E', b'L', b'F', ..] => not_one("an ELF file; a boot loader's image is needed"),
            [0x1f, 0x8b, ..] => {
                not_one("a compressed file; if it is an image for another architecture, it cannot be used")
            }
            _ => not_one("it has no boot header"),
        });
    }
    if ARCH != "x86_64" {
        return Err(other("x86_64"));
    }
    let version = image.get(VERSION).map_or(0, |at| usize::from(u16::from_le_bytes([at[0], at[1]])));
    let text = image.get(SETUP + version..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let release =
        text.split_whitespace().next().filter(|release| release.starts_with(|first: char| first.is_ascii_digit()));
    release.map(str::to_owned).ok_or_else(|| not_one("its boot header names no version"))
}

/// What changes with the modules of a kernel that is not read yet: the folders they are in, or a package of their own.
pub(super) fn modules_fingerprint(located: &Located) -> Vec<String> {
    let (tree, image, modules) = match located {
        Located::Package(file) => return modules_package(file).iter().map(|package| fingerprint(package)).collect(),
        Located::Image { tree, image, modules } => (tree, image, modules),
    };
    let Ok(bytes) = tree.read(image) else { return Vec::new() };
    let Ok(release) = release(&bytes, image) else { return Vec::new() };
    let folders = modules.iter().flat_map(|tree| FOLDERS.map(|at| (tree, Path::new(at).join(&release))));
    folders.flat_map(|(tree, folder)| Modules::of(tree, &folder).fingerprints().collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of an image for x86, with a version.
    fn image(version: &str) -> Vec<u8> {
        let mut image = vec![0; 0x300];
        image[SIGNATURE].copy_from_slice(b"HdrS");
        image[VERSION].copy_from_slice(&0x40_u16.to_le_bytes());
        image.truncate(SETUP + 0x40);
        image.extend(version.as_bytes());
        image.push(0);
        image
    }

    fn package(files: &[(&str, &[u8])], folder: &Path, name: &str) -> PathBuf {
        let mut data = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            data.append_data(&mut header, path, *bytes).expect("memory");
        }
        let data = data.into_inner().and_then(flate2::write::GzEncoder::finish).expect("memory");
        let file = folder.join(name);
        let mut members = ar::Builder::new(fs::File::create(&file).expect("its own"));
        for (name, bytes) in [("debian-binary", &b"2.0\n"[..]), ("data.tar.gz", &data)] {
            members.append(&ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64), bytes).expect("its own");
        }
        file
    }

    #[test]
    fn a_package_has_an_image_with_its_modules() {
        let folder = tempfile::tempdir().expect("a folder");
        let files: [(&str, &[u8]); 2] = [
            ("./boot/vmlinuz-6.1.0-1-cloud", &image("6.1.0-1-cloud (debian) #1 SMP")),
            ("./lib/modules/6.1.0-1-cloud/kernel/drivers/net/veth.ko", b"module"),
        ];
        let file = package(&files, folder.path(), "linux-image-6.1.0-1-cloud_6.1_amd64.deb");
        let kernel = Located::find(&file).and_then(Located::read).expect("a kernel");
        assert_eq!(kernel.release, "6.1.0-1-cloud");
        assert_eq!(kernel.modules().fingerprints().count(), 1);
    }

    #[test]
    fn ubuntu_has_modules_in_a_package_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = image("6.8.0-31-generic (buildd) #31");
        let file = package(
            &[("./boot/vmlinuz-6.8.0-31-generic", &image)],
            folder.path(),
            "linux-image-unsigned-6.8.0-31-generic_6.8.0-31.31_amd64.deb",
        );
        let error = Located::find(&file).and_then(Located::read).expect_err("it has no modules").to_string();
        assert!(error.starts_with("the modules of kernel 6.8.0-31-generic were not found: no lib/modules/"), "{error}");
        assert!(error.ends_with(", and no linux-modules-6.8.0-31-generic_*.deb beside it"), "{error}");
        let module = "./lib/modules/6.8.0-31-generic/kernel/drivers/net/veth.ko";
        package(&[(module, b"module")], folder.path(), "linux-modules-6.8.0-31-generic_6.8.0-31.31_amd64.deb");
        // By the package of the image, or by the folder that both are in.
        for what in [file.as_path(), folder.path()] {
            let kernel = Located::find(what).and_then(Located::read).expect("both are there");
            assert_eq!(kernel.modules().fingerprints().count(), 1);
        }
        // Another package of modules makes another machine.
        let known = || Located::find(&file).map(|located| modules_fingerprint(&located)).expect("both are there");
        let before = known();
        package(&[(module, b"another module")], folder.path(), "linux-modules-6.8.0-31-generic_6.8.0-31.31_amd64.deb");
        assert_ne!(known(), before);
    }

    #[test]
    fn a_folder_has_one_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let find = || Located::find(folder.path()).map(|_| ()).map_err(|error| error.to_string());
        let place = folder.path().display();
        assert_eq!(find(), Err(format!("{place} has no kernel image (vmlinuz)")));
        fs::create_dir(folder.path().join("boot")).expect("its own");
        fs::write(folder.path().join("boot/vmlinuz-6.1.0"), image("6.1.0 (x)")).expect("its own");
        std::os::unix::fs::symlink("boot/vmlinuz-6.1.0", folder.path().join("vmlinuz")).expect("its own");
        assert_eq!(find(), Ok(()));
        fs::write(folder.path().join("boot/vmlinuz-6.2.0"), image("6.2.0 (x)")).expect("its own");
        let several = format!("{place} has several kernels: /boot/vmlinuz-6.1.0, /boot/vmlinuz-6.2.0");
        assert_eq!(find(), Err(several));
    }

    #[test]
    fn a_kernel_that_is_not_there_is_named() {
        let error = Located::find(Path::new("0.0.1-none")).expect_err("it is not installed");
        assert_eq!(
            error.to_string(),
            "there is no kernel `0.0.1-none`: it is neither a file nor a folder, and no version that is installed"
        );
    }

    #[rstest::rstest]
    #[case::arm(&[&[0; 0x38], &b"ARM\x64"[..]].concat(), "k is a kernel for aarch64, and this machine is x86_64")]
    #[case::elf(b"\x7fELF\x02\x01", "k is not a kernel image: an ELF file; a boot loader's image is needed")]
    #[case::text(b"vmlinuz", "k is not a kernel image: it has no boot header")]
    #[case::no_version(&image("none"), "k is not a kernel image: its boot header names no version")]
    fn what_cannot_be_started_is_rejected(#[case] bytes: &[u8], #[case] message: &str) {
        let error = release(bytes, Path::new("k")).expect_err("it is no kernel for this machine").to_string();
        assert_eq!(error.replace(ARCH, "x86_64"), message);
    }
}
