//! Logs of kube-proxy and other components that use klog.

use super::super::line::{Line, is_time};
use super::super::model::{Contents, Format};
use super::{Block, Context, run};

/// `I0614 12:34:56.789012       1 proxier.go:123] ...`
pub(super) fn knows(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 20
        && matches!(bytes[0], b'I' | b'W' | b'E' | b'F')
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
        && line.get(6..).is_some_and(is_time)
        && line.contains("] ")
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let taken = run(lines, |line| knows(line.trim()));
    let entries = lines[..taken].iter().filter(|line| !line.is_blank()).count();
    (taken > 0).then(|| Block::new(Format::ProxyLog, taken, Contents::Entries(entries)))
}
