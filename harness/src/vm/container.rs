//! Images of containers as trees: what `docker save` writes, an image layout of OCI in an archive, or an archive of a root.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::VmError;
use super::architecture;
use super::archive::{Files, unpack};
use super::compression::{invalid, plain};
use super::tree::{self, Entry, LINKS, Tree, without_steps_upwards};
use crate::text::printable;

/// What `docker save` writes about an image, in `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    /// Archives of its layers, the lowest first.
    layers: Vec<PathBuf>,
}

/// An index of OCI (`index.json`), or a manifest: which of them it is shows in what it has.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Listing {
    manifests: Vec<Descriptor>,
    layers: Vec<Descriptor>,
}

/// A reference to a file of a layout.
#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

impl Descriptor {
    /// Whether it may be for this machine: what is for none (`unknown`) attests something about an image.
    fn is_for_this_machine(&self) -> bool {
        self.platform
            .as_ref()
            .is_none_or(|platform| platform.architecture == architecture::OF_CONTAINERS && platform.os == "linux")
    }

    /// Where the file is: `/blobs/sha256/HASH`.
    fn place(&self) -> PathBuf {
        Path::new("/blobs").join(self.digest.replacen(':', "/", 1))
    }
}

/// The most indexes that are in one another: one of images, and one of platforms.
const DEPTH: usize = 4;

/// How the name of a file starts that removes what lower layers have, and that of the one that removes all in its folder.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// The files of an image.
///
/// # Errors
///
/// If it cannot be read as one.
pub(super) fn image(file: &Path) -> Result<Tree, VmError> {
    let read = || {
        let files = unpack(plain(&tree::content(file)?)?)?;
        root(Tree::Archive { files, from: file.to_owned() })
    };
    read().map_err(|source| VmError::Unreadable { file: file.to_owned(), source })
}

/// What a container of an image sees; an archive that is no image is a root itself.
fn root(archive: Tree) -> io::Result<Tree> {
    let has = |place: &str| archive.find(Path::new(place)).is_some();
    let layers = if has("/manifest.json") {
        let mut saved: Vec<Saved> = json(&archive, Path::new("/manifest.json"))?;
        let (Some(image), true) = (saved.pop(), saved.is_empty()) else {
            return Err(invalid("it does not have exactly one image".to_owned()));
        };
        image.layers.iter().map(|layer| Path::new("/").join(layer)).collect()
    } else if has("/index.json") {
        layers_of_layout(&archive)?
    } else {
        return Ok(archive);
    };
    let mut files = Files::new();
    for layer in layers {
        put(&mut files, unpack(plain(&content(&archive, &layer)?)?)?)?;
    }
    Ok(Tree::Archive { files, from: archive.place().to_owned() })
}

fn layers_of_layout(archive: &Tree) -> io::Result<Vec<PathBuf>> {
    let mut place = PathBuf::from("/index.json");
    for _ in 0..DEPTH {
        let mut listing: Listing = json(archive, &place)?;
        if !listing.layers.is_empty() {
            return Ok(listing.layers.iter().map(Descriptor::place).collect());
        }
        listing.manifests.retain(Descriptor::is_for_this_machine);
        let (Some(next), true) = (listing.manifests.pop(), listing.manifests.is_empty()) else {
            return Err(invalid("it does not have exactly one image for linux/amd64".to_owned()));
        };
        place = next.place();
    }
    Err(invalid("its indexes do not lead to an image".to_owned()))
}

/// The content of a file; equal layers are links to one of them.
fn content<'t>(archive: &'t Tree, place: &Path) -> io::Result<Cow<'t, [u8]>> {
    let found = archive.find(place).ok_or_else(|| invalid(format!("it lacks {}", printable(place))))?;
    archive.read(&found.path)
}

fn json<T: DeserializeOwned>(archive: &Tree, place: &Path) -> io::Result<T> {
    serde_json::from_slice(&content(archive, place)?).map_err(|error| invalid(format!("{}: {error}", printable(place))))
}

/// Puts a layer on those below it.
fn put(root: &mut Files, layer: Files) -> io::Result<()> {
    let (whiteouts, own): (Files, Files) = layer.into_iter().partition(|(path, _)| whiteout(path).is_some());
    // They are about what is below the layer, wherever in it they are.
    for path in whiteouts.keys() {
        if let Some(gone) = whiteout(path) {
            remove(root, &through_links(root, &gone)?);
        }
    }
    for (path, entry) in own {
        let path = through_links(root, &path)?;
        // A folder takes the place of a file, and a file that of a folder.
        path.ancestors().skip(1).for_each(|above| _ = root.remove(above));
        remove(root, &path);
        root.insert(path, entry);
    }
    Ok(())
}

/// What a file removes: a folder is removed with what is in it, and its own entries are those of the layer.
fn whiteout(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    if name == OPAQUE {
        return path.parent().map(Path::to_owned);
    }
    name.strip_prefix(WHITEOUT).map(|gone| path.with_file_name(gone))
}

/// Removes a file, or a folder with all that is in it.
fn remove(root: &mut Files, gone: &Path) {
    let below: Vec<PathBuf> =
        root.range(gone.to_owned()..).map(|(path, _)| path.clone()).take_while(|path| path.starts_with(gone)).collect();
    below.iter().for_each(|path| _ = root.remove(path));
}

/// Where a path of a layer leads, through the links of lower layers to folders.
fn through_links(root: &Files, path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let link = path.ancestors().skip(1).find_map(|above| match root.get(above) {
            Some(Entry::Link(target)) => Some((above.to_owned(), target.clone())),
            _ => None,
        });
        let Some((link, target)) = link else { return Ok(path) };
        let rest = path.strip_prefix(&link).unwrap_or(&path).to_owned();
        path = without_steps_upwards(&link.with_file_name(target).join(rest));
    }
    Err(invalid(format!("its links do not lead to {}", printable(&path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive; a content that starts with `->` is a link.
    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            // The library that writes refuses what one that reads must.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_mode(0o755);
            match bytes.strip_prefix(b"->") {
                Some(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_link_name(String::from_utf8_lossy(target).as_ref()).expect("a short name");
                    header.set_size(0);
                }
                None => header.set_size(bytes.len() as u64),
            }
            header.set_cksum();
            let bytes = if bytes.starts_with(b"->") { &[][..] } else { bytes };
            archive.append(&header, bytes).expect("memory");
        }
        archive.into_inner().expect("memory")
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut zipped, bytes).and_then(|()| zipped.finish()).expect("memory")
    }

    /// The files of an image, with their contents.
    fn seen(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
        let tree = |files| root(Tree::Archive { files, from: PathBuf::from("image.tar") });
        let Tree::Archive { files, .. } = unpack(bytes).and_then(tree).map_err(|error| error.to_string())? else {
            panic!("an archive is no folder");
        };
        let text = |entry| match entry {
            Entry::File { bytes, .. } => String::from_utf8_lossy(&bytes).into_owned(),
            Entry::Link(target) => format!("->{}", target.display()),
        };
        Ok(files.into_iter().map(|(path, entry)| (path.display().to_string(), text(entry))).collect())
    }

    fn saved(layers: &[Vec<u8>]) -> Vec<u8> {
        let names: Vec<String> = (0..layers.len()).map(|number| format!("{number}/layer.tar")).collect();
        let manifest = format!(r#"[{{"Config": "c.json", "RepoTags": null, "Layers": {names:?}}}]"#);
        let mut files = vec![("manifest.json", manifest.as_bytes())];
        files.extend(names.iter().map(String::as_str).zip(layers.iter().map(Vec::as_slice)));
        tar(&files)
    }

    fn expected(files: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        Ok(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn upper_layers_replace_and_remove_what_lower_ones_have() {
        let image = saved(&[
            tar(&[
                ("lib", b"->usr/lib"),
                ("usr/lib/a.so", b"old"),
                ("usr/lib/b.so", b"gone"),
                ("opt/x/y", b"all"),
                ("opt/x/z", b"of it"),
                ("srv", b"a file"),
                ("etc/d/f", b"a folder"),
            ]),
            tar(&[
                ("lib/a.so", b"new"),
                ("usr/lib/.wh.b.so", b""),
                ("opt/x/.wh..wh..opq", b""),
                ("opt/x/w", b"own"),
                ("srv/f", b"a folder"),
                ("etc/d", b"a file"),
            ]),
        ]);
        let files = [
            ("/etc/d", "a file"),
            ("/lib", "->usr/lib"),
            ("/opt/x/w", "own"),
            ("/srv/f", "a folder"),
            ("/usr/lib/a.so", "new"),
        ];
        assert_eq!(seen(&image), expected(&files));
    }

    #[test]
    fn a_layout_of_oci_has_its_layers_by_digest_for_several_platforms() {
        let layer = gzip(&tar(&[("sbin/nft", b"nft")]));
        let index =
            br#"{"manifests": [{"digest": "sha256:aa", "mediaType": "application/vnd.oci.image.index.v1+json"}]}"#;
        let platforms = br#"{"manifests": [
            {"digest": "sha256:bb", "platform": {"architecture": "arm64", "os": "linux"}},
            {"digest": "sha256:cc", "platform": {"architecture": "amd64", "os": "linux"}},
            {"digest": "sha256:dd", "platform": {"architecture": "unknown", "os": "unknown"}}]}"#;
        let manifest = br#"{"config": {"digest": "sha256:ee"}, "layers": [{"digest": "sha256:ff"}]}"#;
        let image = tar(&[
            ("index.json", index),
            ("blobs/sha256/aa", platforms),
            ("blobs/sha256/cc", manifest),
            ("blobs/sha256/ff", &layer),
        ]);
        assert_eq!(seen(&image), expected(&[("/sbin/nft", "nft")]));
    }

    #[test]
    fn an_archive_of_a_root_is_one() {
        assert_eq!(seen(&tar(&[("./sbin/nft", b"nft")])), expected(&[("/sbin/nft", "nft")]));
    }

    #[rstest::rstest]
    #[case::upwards(&tar(&[("../etc/passwd", b"x")]), "its entry ../etc/passwd leads out of it")]
    #[case::upwards_in_a_layer(&saved(&[tar(&[("a/../../b", b"x")])]), "its entry a/../../b leads out of it")]
    #[case::no_archive(&b"root:x:0:0:root:/root:/bin/bash\n".repeat(20), "it is not a tar archive")]
    #[case::no_layer(&tar(&[("manifest.json", br#"[{"Layers": ["a"]}]"#)]), "it lacks /a")]
    #[case::two_images(
        &tar(&[("manifest.json", br#"[{"Layers": []}, {"Layers": []}]"#)]),
        "it does not have exactly one image"
    )]
    #[case::no_platform(&tar(&[("index.json", br#"{"manifests": []}"#)]), "it does not have exactly one image for linux/amd64")]
    #[case::loop_of_indexes(
        &tar(&[("index.json", br#"{"manifests": [{"digest": "a"}]}"#), ("blobs/a", br#"{"manifests": [{"digest": "a"}]}"#)]),
        "its indexes do not lead to an image"
    )]
    #[case::loop_of_links(
        &saved(&[tar(&[("a", b"->b"), ("b", b"->a")]), tar(&[("a/f", b"x")])]),
        "its links do not lead to /a/f"
    )]
    fn what_is_no_image_is_rejected(#[case] image: &[u8], #[case] error: &str) {
        assert_eq!(seen(image), Err(error.to_owned()));
    }
}
