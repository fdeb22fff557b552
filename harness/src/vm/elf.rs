//! What ELF files say of themselves: programs and libraries of what they need, kernel modules of what they are.

use std::path::PathBuf;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, read};

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

/// What a file needs; nothing where it is no 64-bit ELF file.
pub(super) fn needs(bytes: &[u8]) -> Needs {
    read_needs(bytes).unwrap_or_default()
}

fn read_needs(bytes: &[u8]) -> read::Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == PT_INTERP
            && let Ok(name) = segment.data(endian, bytes)
        {
            let name = String::from_utf8_lossy(name);
            needs.interpreter = Some(PathBuf::from(name.trim_end_matches('\0')));
        }
    }
    let sections = header.sections(endian, bytes)?;
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
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

    #[test]
    fn a_script_needs_nothing_that_is_known() {
        assert_eq!(needs(b"#!/bin/sh\nexit 0\n"), Needs::default());
        assert_eq!(module_info(b""), None);
    }
}
