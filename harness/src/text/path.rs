//! Paths, which may contain any bytes.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::one_line;

/// A path for messages, in one line: control characters are escaped, and a byte that is not UTF-8 is written as `\xff`.
///
/// All paths are printed through this: `Path::display` prints line ends and escape sequences as they are.
pub fn printable(path: &Path) -> Printable<'_> {
    Printable(path)
}

/// See [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'p>(&'p Path);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_path(self.0, f, one_line)
    }
}

/// A path for formats that escape strings themselves, such as JSON: unchanged except for bytes that are not UTF-8, which are written as `\xff`.
pub fn path_text(path: &Path) -> String {
    struct Plain<'p>(&'p Path);
    impl Display for Plain<'_> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write_path(self.0, f, |text| Cow::Borrowed(text))
        }
    }
    Plain(path).to_string()
}

/// Serializes a path: in human-readable formats as [`path_text`], because serde fails on paths that are not UTF-8; otherwise unchanged.
pub(crate) fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.serialize_str(&path_text(path))
    } else {
        path.as_os_str().serialize(serializer)
    }
}

/// Deserializes the output of [`serialize_path`].
pub(crate) fn deserialize_path<'d, D: Deserializer<'d>>(deserializer: D) -> Result<PathBuf, D::Error> {
    if deserializer.is_human_readable() {
        PathBuf::deserialize(deserializer)
    } else {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

fn write_path(path: &Path, f: &mut Formatter<'_>, written: fn(&str) -> Cow<'_, str>) -> fmt::Result {
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        f.write_str(&written(chunk.valid()))?;
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}
