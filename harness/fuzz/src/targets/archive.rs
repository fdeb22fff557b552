//! Archives: tar, tar.gz and zip.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use svclab::evidence::{Source, from_source};
use svclab_rules_fuzz::Target;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The target.
pub const TARGET: Target = Target { name: "archive", corpus, check };

const TEXT: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j ACCEPT\nCOMMIT\n";

fn corpus() -> Vec<Vec<u8>> {
    [tar(), zip(), tar().and_then(|bytes| gzip(&bytes)), gzip(TEXT.as_bytes())].into_iter().flatten().collect()
}

fn tar() -> Option<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["node/iptables.txt", "node/empty.txt"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(TEXT.len() as u64);
        builder.append_data(&mut header, name, TEXT.as_bytes()).ok()?;
    }
    builder.into_inner().ok()
}

fn zip() -> Option<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["node/iptables.txt", "node/other.txt"] {
        writer.start_file(name, SimpleFileOptions::default()).ok()?;
        writer.write_all(TEXT.as_bytes()).ok()?;
    }
    Some(writer.finish().ok()?.into_inner())
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Any file is read, or rejected with a reason in one line.
///
/// # Panics
///
/// If that does not hold, or no file can be written.
pub fn check(data: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().unwrap_or_else(|error| panic!("no file: {error}"));
    file.write_all(data).unwrap_or_else(|error| panic!("no file: {error}"));
    match from_source(Source::Path(file.path().to_owned())) {
        Ok(evidence) => assert!(evidence.pieces.iter().all(|piece| piece.first <= piece.last)),
        Err(error) => assert!(!error.message.is_empty() && !error.message.contains('\n'), "{}", error.message),
    }
}
