//! Files in compressed formats that are not read.

/// The formats by their first bytes, with the program that decompresses each.
const FORMATS: [(&[u8], &str, &str); 8] = [
    (b"\xfd7zXZ\0", "xz", "xz -d"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"BZh", "bzip2", "bzip2 -d"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
    (b"LZIP", "lzip", "lzip -d"),
    (b"\x1f\x9d", "compress", "gzip -d"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
    (b"Rar!\x1a\x07", "RAR", "unrar x"),
];

/// Why compressed bytes are not read, a fragment in lower case; `None` for all others. Text may start with letters that are one of the formats' marks.
pub(crate) fn compressed(bytes: &[u8]) -> Option<String> {
    let (_, name, command) = FORMATS.iter().find(|(start, ..)| bytes.starts_with(start))?;
    let is_text =
        bytes.iter().take(1024).all(|byte| byte.is_ascii() && (!byte.is_ascii_control() || byte.is_ascii_whitespace()));
    (!is_text).then(|| format!("it is compressed with {name}: decompress it first, with `{command}`"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::xz(b"\xfd7zXZ\0\0\x04", Some("xz -d"))]
    #[case::zstd(b"\x28\xb5\x2f\xfd\x24", Some("zstd -d"))]
    #[case::bzip2(b"BZh91AY&SY\xa5", Some("bzip2 -d"))]
    #[case::text(b"BZh is a text", None)]
    #[case::other(b"\xff\xd8", None)]
    fn compressed_formats_are_known(#[case] bytes: &[u8], #[case] command: Option<&str>) {
        let found = compressed(bytes);
        assert_eq!(found.is_some(), command.is_some());
        assert!(found.unwrap_or_default().contains(command.unwrap_or_default()));
    }
}
