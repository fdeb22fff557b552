//! What ELF files say of themselves: programs and libraries of what they need, kernel modules of what they are.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_INTERP};
use object::read::StringTable;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, read};

use super::architecture::LOADER;

/// What a program or library needs to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Needs {
    /// The program that loads it: `/lib64/ld-linux-x86-64.so.2`.
    pub(super) interpreter: Option<PathBuf>,
    /// Names of libraries: `libc.so.6`.
    pub(super) libraries: Vec<String>,
    /// Folders that it has its libraries looked for in; `$ORIGIN` is its own.
    pub(super) folders: Vec<String>,
}

/// What a file needs, as its loader reads it: by segments. Nothing where it is no 64-bit ELF file.
pub(super) fn needs(bytes: &[u8]) -> Needs {
    read_needs(bytes).unwrap_or_default()
}

fn read_needs(bytes: &[u8]) -> read::Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, bytes)?;
    let mut needs = Needs::default();
    for segment in segments {
        if segment.p_type(endian) == PT_INTERP
            && let Ok(name) = segment.data(endian, bytes)
        {
            let name = String::from_utf8_lossy(name);
            needs.interpreter = Some(PathBuf::from(name.trim_end_matches('\0')));
        }
        let entries = segment.dynamic(endian, bytes)?.unwrap_or_default();
        let value = |tag| entries.iter().find(|entry| entry.tag(endian) == tag).map(|entry| entry.val(endian));
        let (Some(at), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else { continue };
        let strings = segments.iter().find_map(|segment| segment.data_range(endian, bytes, at, size).ok().flatten());
        let strings = StringTable::new(strings.unwrap_or_default(), 0, size);
        for entry in entries {
            let text = || entry.string(endian, strings).map(|name| String::from_utf8_lossy(name).into_owned());
            match entry.tag(endian) {
                DT_NEEDED => needs.libraries.push(text()?),
                DT_RUNPATH | DT_RPATH => needs.folders.extend(text()?.split(':').map(str::to_owned)),
                _ => {}
            }
        }
    }
    Ok(needs)
}

/// The bytes in which headers of segments are: linkers write them after the file's header.
const HEADERS: u64 = 64 << 10;
/// The fields of an ELF header for sections: where they are; how many, and which of them has their names (`elf(5)`).
const SECTIONS: [Range<usize>; 2] = [0x28..0x30, 0x3c..0x40];

/// What a kernel and a loader read of a program or library, without what only debuggers do: no section is loaded that is not part of a
/// segment, and sections are last. The whole of any other file.
///
/// # Errors
///
/// Those of reading it.
pub(super) fn loaded(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.by_ref().take(HEADERS).read_to_end(&mut bytes)?;
    let Ok(Some(end)) = end_of_segments(&bytes) else {
        file.read_to_end(&mut bytes)?;
        return Ok(bytes);
    };
    file.take(end.saturating_sub(bytes.len()) as u64).read_to_end(&mut bytes)?;
    bytes.truncate(end);
    SECTIONS.into_iter().for_each(|field| bytes[field].fill(0));
    Ok(bytes)
}

/// Where the last segment of a program or library ends in its file; nothing where it is neither.
fn end_of_segments(bytes: &[u8]) -> read::Result<Option<usize>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, bytes)?;
    let headers = header.e_phoff(endian) + size_of_val(segments) as u64;
    let ends = segments.iter().map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)));
    let end = ends.max().map(|end| end.max(headers).max(size_of_val(header) as u64));
    Ok(end.and_then(|end| usize::try_from(end).ok()))
}

/// Files of the GNU C library: they work with one another only if they are of one release.
const GLIBC: [&str; 10] = [
    LOADER,
    LIBC,
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libresolv.so.2",
    "libutil.so.1",
    "libanl.so.1",
    "libmvec.so.1",
];

/// The file of that library that says its release, and what stands before it.
pub(super) const LIBC: &str = "libc.so.6";
const RELEASE: &[u8] = b" release version ";

/// Whether a library is a file of the GNU C library.
pub(super) fn is_of_glibc(library: &str) -> bool {
    GLIBC.contains(&library)
}

/// The release of a GNU C library, by its `libc.so.6`: 2 and 36.
pub(super) fn glibc_release(bytes: &[u8]) -> Option<(u32, u32)> {
    let at = bytes.windows(RELEASE.len()).position(|window| window == RELEASE)? + RELEASE.len();
    let text = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 16)]).into_owned();
    let (major, rest) = text.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The lines `key=value` that a kernel module has about itself, as `modinfo` prints them; `None` where a file is no module.
pub(super) fn module_info(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let file = object::File::parse(bytes).ok()?;
    let data = file.section_by_name(".modinfo")?.data().ok()?;
    let lines = data.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    Some(lines.filter_map(|line| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_says_what_it_needs() {
        let own = std::fs::read("/proc/self/exe").expect("a running program is a file");
        let needs = needs(&own);
        // A static program needs nothing, and has no interpreter.
        assert_eq!(
            needs.interpreter.is_some(),
            needs.libraries.iter().any(|name| name.starts_with("libc.")),
            "{needs:?}"
        );
        assert_eq!(module_info(&own), None);
    }

    #[rstest::rstest]
    #[case("GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n", Some((2, 36)))]
    #[case("GNU C Library (x) development release version 2.9.9000.\n", Some((2, 9)))]
    #[case("GNU C Library (x) stable release version ", None)]
    #[case("musl libc (x86_64)\nVersion 1.2.4", None)]
    fn the_gnu_c_library_says_its_release(#[case] text: &str, #[case] release: Option<(u32, u32)>) {
        assert_eq!(glibc_release(text.as_bytes()), release);
    }

    /// The segments after the header, which says where sections are.
    fn segments(bytes: &[u8]) -> Vec<&[u8]> {
        let header = FileHeader64::<Endianness>::parse(bytes).expect("a program");
        let endian = header.endian().expect("a program");
        let segments = header.program_headers(endian, bytes).expect("a program").iter();
        let after = segments.filter(|segment| segment.p_offset(endian) > 0);
        after.map(|segment| segment.data(endian, bytes).expect("its bytes")).collect()
    }

    #[test]
    fn sections_are_left_out_and_segments_stay() {
        let own = std::fs::read("/proc/self/exe").expect("a running program is a file");
        let small = loaded(&own[..]).expect("memory");
        assert!(small.len() < own.len(), "{} of {}", small.len(), own.len());
        assert_eq!(segments(&small), segments(&own));
        assert_eq!(needs(&small), needs(&own));
        assert_eq!(loaded(&small[..]).expect("memory"), small);
    }

    #[test]
    fn what_is_no_program_is_read_whole() {
        let text = vec![b'x'; HEADERS as usize + 1];
        assert_eq!(loaded(&text[..]).expect("memory"), text);
        // A file that is cut off has what is left of it.
        let own = std::fs::read("/proc/self/exe").expect("a running program is a file");
        assert_eq!(loaded(&own[..100]).expect("memory").len(), 100);
    }

    #[test]
    fn a_script_needs_nothing_that_is_known() {
        assert_eq!(needs(b"#!/bin/sh\nexit 0\n"), Needs::default());
        assert_eq!(module_info(b""), None);
    }
}
