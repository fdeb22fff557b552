//! The kernel that is asked for: an image, an installed version, a folder, or a package.

use std::fs;
use std::path::{Path, PathBuf};

use super::VmError;
use super::archive;
use super::bzimage::release;
use super::modules::Modules;
use super::tree::{Tree, fingerprint};
use crate::text::path_text;

/// A kernel that was found, but not read.
#[derive(Debug)]
pub(super) enum Located {
    /// An image.
    Image(Image),
    /// A package of Debian or Ubuntu.
    Package(PathBuf),
}

/// An image in the first of the trees that its modules may be in, in the order of preference.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    trees: Vec<Tree>,
}

/// A kernel with its modules.
#[derive(Debug)]
pub(super) struct KernelImage {
    /// The image, as a boot loader loads it.
    pub(super) image: Vec<u8>,
    /// As `uname -r` prints it.
    pub(super) release: String,
    /// Where its modules are.
    tree: Tree,
    folder: PathBuf,
}

/// Where distributions have the image of an installed version.
const INSTALLED: [&str; 3] = ["/boot/vmlinuz-{}", "/lib/modules/{}/vmlinuz", "/usr/lib/modules/{}/vmlinuz"];

/// Folders of modules in a tree; the last is for folders that have nothing else.
const MODULES: [&str; 3] = ["/lib/modules", "/usr/lib/modules", "/modules"];

impl Located {
    /// Looks for a kernel.
    ///
    /// # Errors
    ///
    /// If there is none, or several.
    pub(super) fn find(what: &Path) -> Result<Self, VmError> {
        if what.is_dir() {
            return match packages_in(what).as_slice() {
                [] => Image::only(Tree::Folder(what.to_owned())).map(Self::Image),
                [package] => Ok(Self::Package(package.clone())),
                several => Err(several_images(what, several)),
            };
        }
        if what.extension().is_some_and(|ending| ending == "deb") && what.is_file() {
            return Ok(Self::Package(what.to_owned()));
        }
        if what.is_file() {
            return Ok(Self::Image(Image::file(what)));
        }
        let version = what.to_str().filter(|version| !version.contains('/'));
        let places = version.into_iter().flat_map(|version| INSTALLED.map(|place| place.replace("{}", version)));
        let installed = places.map(PathBuf::from).find(|place| place.is_file());
        let missing = || VmError::NoKernel(what.to_owned());
        installed.map(|place| Self::Image(Image::file(&place))).ok_or_else(missing)
    }

    /// What changes with the files that are read, of the image and of all modules.
    pub(super) fn fingerprints(&self) -> Vec<String> {
        match self {
            Self::Package(file) => {
                [file].into_iter().chain(&modules_package(file)).map(|file| fingerprint(file)).collect()
            }
            Self::Image(image) => image.fingerprints(),
        }
    }

    /// Reads the kernel.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is none for this machine, or has no modules.
    pub(super) fn read(self) -> Result<KernelImage, VmError> {
        let file = match self {
            Self::Image(image) => return image.read(),
            Self::Package(file) => file,
        };
        let mut tree = archive::package(&file)?;
        // Ubuntu has images and modules in packages of their own.
        if !tree.below(Path::new("/lib/modules")).iter().any(|path| path.to_string_lossy().contains(".ko"))
            && let Some(modules) = modules_package(&file)
        {
            tree = tree.with(archive::package(&modules)?);
        }
        Image::only(tree)?.read()
    }
}

impl Image {
    /// One of this machine, with modules beside it, in the root that it is in, or the machine's own.
    fn file(image: &Path) -> Self {
        let image = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        let above = image.ancestors().skip(1).take(2).map(|folder| Tree::Folder(folder.to_owned()));
        let path = Path::new("/").join(image.file_name().unwrap_or_default());
        Self { path, trees: above.chain([Tree::host()]).collect() }
    }

    /// The only one of a tree: in its folder `boot`, or where it starts.
    fn only(tree: Tree) -> Result<Self, VmError> {
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
            (Some(path), true) => Ok(Self { path, trees: vec![tree, Tree::host()] }),
            (None, _) => Err(VmError::NoImage(tree.place().to_owned())),
            (Some(last), false) => {
                images.push(last);
                Err(several_images(tree.place(), &images))
            }
        }
    }

    fn fingerprints(&self) -> Vec<String> {
        let mut all = vec![self.trees[0].fingerprint(&self.path)];
        // What cannot be read is not made, nor kept.
        let release = self.trees[0].read(&self.path).ok().and_then(|bytes| release(&bytes, &self.path).ok());
        let modules = release.and_then(|release| self.modules_of(&release));
        let of = |(tree, folder): (usize, PathBuf)| Modules::of(&self.trees[tree], &folder).fingerprints();
        all.extend(modules.map(of).unwrap_or_default());
        all
    }

    fn read(mut self) -> Result<KernelImage, VmError> {
        let place = self.trees[0].place_of(&self.path);
        let unreadable = |source| VmError::Unreadable { file: place.clone(), source };
        let image = self.trees[0].read(&self.path).map_err(unreadable)?.into_owned();
        let release = release(&image, &place)?;
        let Some((tree, folder)) = self.modules_of(&release) else { return Err(self.no_modules(release)) };
        Ok(KernelImage { image, release, tree: self.trees.swap_remove(tree), folder })
    }

    /// The number of the tree that has the modules of a release, and the folder in it.
    fn modules_of(&self, release: &str) -> Option<(usize, PathBuf)> {
        let places = (0..self.trees.len()).flat_map(|tree| MODULES.map(|at| (tree, Path::new(at).join(release))));
        places.into_iter().find(|(tree, folder)| !self.trees[*tree].below(folder).is_empty())
    }

    fn no_modules(&self, release: String) -> VmError {
        let places = self.trees.iter().map(|tree| path_text(tree.place())).collect::<Vec<_>>().join(", ");
        let second = match self.trees[0] {
            Tree::Archive { .. } => format!(", and no linux-modules-{release}_*.deb beside it"),
            Tree::Folder(_) => String::new(),
        };
        VmError::NoModules { places: format!("no lib/modules/{release} in {places}{second}"), release }
    }
}

impl KernelImage {
    /// Its modules.
    pub(super) fn modules(&self) -> Modules<'_> {
        Modules::of(&self.tree, &self.folder)
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

/// Ubuntu's package of modules beside its package of an image: `linux-modules-6.8.0-31-generic_6.8.0-31.31_amd64.deb` beside
/// `linux-image-unsigned-6.8.0-31-generic_6.8.0-31.31_amd64.deb`.
fn modules_package(image: &Path) -> Option<PathBuf> {
    let name = image.file_name()?.to_str()?;
    let rest = name.strip_prefix("linux-image-unsigned-").or_else(|| name.strip_prefix("linux-image-"))?;
    Some(image.with_file_name(format!("linux-modules-{rest}"))).filter(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::super::bzimage::image;
    use super::*;

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
        assert_eq!(kernel.modules().fingerprints().len(), 1);
    }

    #[test]
    fn a_package_that_was_not_downloaded_to_its_end_is_not_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = image("6.1.0-1-cloud (debian) #1 SMP");
        let file = package(&[("./boot/vmlinuz-6.1.0-1-cloud", &image)], folder.path(), "linux-image-6.1.0_amd64.deb");
        let whole = fs::read(&file).expect("its own");
        for length in [0, 5, 60, whole.len() / 2, whole.len() - 100] {
            fs::write(&file, &whole[..length]).expect("its own");
            let error = Located::find(&file).and_then(Located::read).expect_err("it is not whole").to_string();
            assert_eq!(error, format!("{}: it ends early, so it is not whole", file.display()), "{length} bytes");
        }
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
            assert_eq!(kernel.modules().fingerprints().len(), 1);
        }
        // Another package of modules makes another machine.
        let known = || Located::find(&file).map(|located| located.fingerprints()).expect("both are there");
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
            "there is no kernel `0.0.1-none`: it is neither a file, nor a folder, nor an installed version"
        );
        let error = Located::find(Path::new("a\nb")).expect_err("it is not there").to_string();
        assert!(error.starts_with("there is no kernel `a\\nb`: "), "{error}");
    }

    #[test]
    fn a_damaged_package_is_called_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("linux-image-6.1.0_amd64.deb");
        let mut members = ar::Builder::new(fs::File::create(&file).expect("its own"));
        let mut data = super::super::xz::tests::blocks();
        data[40] ^= 0x55;
        members.append(&ar::Header::new(b"data.tar.xz".to_vec(), data.len() as u64), &data[..]).expect("its own");
        drop(members);
        let error = Located::find(&file).and_then(Located::read).expect_err("it is damaged").to_string();
        assert!(error.starts_with(&format!("{}: it is damaged: ", file.display())), "{error}");
    }

    /// Reading it whole would take more memory than there is.
    #[test]
    fn a_file_that_is_too_large_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["vmlinuz", "linux-image-6.1.0_amd64.deb"] {
            let file = folder.path().join(name);
            fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("its own");
            let error = Located::find(&file).and_then(Located::read).expect_err("it is too large").to_string();
            assert_eq!(
                error,
                format!("{}: it is larger than 2 GiB", file.canonicalize().expect("it is there").display())
            );
        }
    }
}
