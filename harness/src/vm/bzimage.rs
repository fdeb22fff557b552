//! Images of kernels for x86, by their boot header (Documentation/arch/x86/boot.rst).

use std::ops::Range;
use std::path::Path;

use super::VmError;

/// Where the signature is, and where the version is, from [`SETUP`] on.
const SIGNATURE: Range<usize> = 0x202..0x206;
const VERSION: Range<usize> = 0x20e..0x210;
const SETUP: usize = 0x200;
/// The signature of an image for 64-bit ARM (Documentation/arch/arm64/booting.rst).
const ARM: Range<usize> = 0x38..0x3c;

/// The release of an image: what its version starts with.
///
/// # Errors
///
/// If a file is none, or is for another architecture.
pub(super) fn release(image: &[u8], file: &Path) -> Result<String, VmError> {
    let not_one = |what| VmError::NotAnImage { file: file.to_owned(), what };
    if image.get(SIGNATURE) != Some(b"HdrS") {
        return Err(match image {
            _ if image.get(ARM) == Some(b"ARM\x64") => {
                VmError::OtherArchitecture { file: file.to_owned(), found: "aarch64" }
            }
            [0x7f, b'E', b'L', b'F', ..] => not_one("an ELF file; a boot loader's image is needed"),
            [0x1f, 0x8b, ..] => {
                not_one("a compressed file; if it is an image for another architecture, it cannot be used")
            }
            _ => not_one("it has no boot header"),
        });
    }
    let version = image.get(VERSION).map_or(0, |at| usize::from(u16::from_le_bytes([at[0], at[1]])));
    let text = image.get(SETUP + version..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let release =
        text.split_whitespace().next().filter(|release| release.starts_with(|first: char| first.is_ascii_digit()));
    release.map(str::to_owned).ok_or_else(|| not_one("its boot header names no version"))
}

/// The start of an image with a version, for tests.
#[cfg(test)]
pub(super) fn image(version: &str) -> Vec<u8> {
    let mut image = vec![0; 0x300];
    image[SIGNATURE].copy_from_slice(b"HdrS");
    image[VERSION].copy_from_slice(&0x40_u16.to_le_bytes());
    image.truncate(SETUP + 0x40);
    image.extend(version.as_bytes());
    image.push(0);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::arm(&[&[0; 0x38], &b"ARM\x64"[..]].concat(), "k is a kernel for aarch64, and this machine is x86_64")]
    #[case::elf(b"\x7fELF\x02\x01", "k is not a kernel image: an ELF file; a boot loader's image is needed")]
    #[case::text(b"vmlinuz", "k is not a kernel image: it has no boot header")]
    #[case::zeros(&[0; 0x400], "k is not a kernel image: it has no boot header")]
    #[case::no_version(&image("none"), "k is not a kernel image: its boot header names no version")]
    fn what_cannot_be_started_is_rejected(#[case] bytes: &[u8], #[case] message: &str) {
        let error = release(bytes, Path::new("k")).expect_err("it is no kernel for this machine");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn the_header_names_the_release() {
        let release = release(&image("6.1.0-1-cloud (debian) #1 SMP"), Path::new("k"));
        assert_eq!(release.expect("an image"), "6.1.0-1-cloud");
    }
}
