//! Compressed files, which their start shows.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::xz;
use crate::text::reason;

/// What files start with.
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const XZ: &[u8] = b"\xfd7zXZ";
const BZIP2: &[u8] = b"BZh";

/// A reader of what a file has without its compression, if it is compressed.
///
/// # Errors
///
/// If it is compressed in a way that is not read.
pub(super) fn plain<'b>(bytes: &'b [u8]) -> io::Result<Box<dyn Read + 'b>> {
    let is = |start| bytes.starts_with(start);
    Ok(match () {
        () if is(GZIP) => Box::new(MultiGzDecoder::new(bytes)),
        () if is(ZSTD) => Box::new(StreamingDecoder::new(bytes).map_err(io::Error::other)?),
        () if is(XZ) => xz::plain(bytes).map_err(damaged)?,
        () if is(BZIP2) => return Err(invalid("it is compressed by bzip2, which svclab does not read".to_owned())),
        () => Box::new(bytes),
    })
}

/// The error of a file that is not what it should be.
pub(super) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The error of a file that cannot be read to its end, unless that is because it ends early.
pub(super) fn damaged(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => error,
        _ => invalid(format!("it is damaged: {}", reason(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rstest::rstest;

    use super::*;

    const TEXT: &str = xz::tests::TEXT;
    fn zipped() -> Vec<u8> {
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        zipped.write_all(TEXT.as_bytes()).and_then(|()| zipped.finish()).expect("memory")
    }

    fn zstd() -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(TEXT.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[rstest]
    #[case::not_compressed(TEXT.into())]
    #[case::gzip(zipped())]
    #[case::zstd(zstd())]
    #[case::xz(xz::tests::blocks())]
    fn the_start_shows_the_compression(#[case] bytes: Vec<u8>) {
        let mut text = String::new();
        plain(&bytes).and_then(|mut reader| reader.read_to_string(&mut text)).expect("it is whole");
        assert_eq!(text, TEXT);
    }

    #[test]
    fn what_is_not_read_is_named() {
        let error = plain(b"BZh91AY&SY").err().expect("it is not read").to_string();
        assert_eq!(error, "it is compressed by bzip2, which svclab does not read");
    }
}
