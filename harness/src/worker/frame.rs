//! Frames on a pipe: the length in eight bytes, then the value in postcard's format, which preserves paths and numbers exactly.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a value.
pub(crate) fn write(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a value; the end of the pipe is `UnexpectedEof`.
pub(crate) fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use super::*;
    use crate::observation::{Observation, Tally, Translations};
    use crate::report::TestReport;
    use crate::report::samples::failing;
    use crate::scenario::Span;

    /// A run receives exactly what a worker sends, including numbers, maps and paths that JSON cannot represent.
    #[test]
    fn reports_arrive_as_they_were_sent() {
        let mut tests: Vec<TestReport> = failing().scenarios.into_iter().flat_map(|scenario| scenario.tests).collect();
        let file = PathBuf::from(std::ffi::OsString::from_vec(vec![b'a', 0xff, b'\n']));
        tests[0].span = Span { file, line: 1, column: 2 };
        let mut translated = Translations::default();
        translated.add("node/a", "10.0.0.1:80".parse::<std::net::SocketAddr>().expect("an address"), 3);
        tests[0].probes[0].observation = Observation::Tally(Tally {
            delivered: BTreeMap::from([("[fd00::1]:80".parse().expect("an address"), u64::MAX)]),
            translated: Some(Box::new(translated)),
            ..Tally::default()
        });
        let mut pipe = Vec::new();
        write(&mut pipe, &tests).expect("memory");
        let mut pipe = &pipe[..];
        assert_eq!(read::<Vec<TestReport>>(&mut pipe).expect("it was written"), tests);
        assert_eq!(read::<Vec<TestReport>>(&mut pipe).expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
    }
}
