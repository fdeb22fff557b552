//! `tcpdump`, with or without times and link headers.

use super::super::line::{Line, is_time};
use super::super::model::{Contents, Format};
use super::{Block, Context, run};

pub(super) fn knows(line: &str) -> bool {
    // One letter is found faster than three.
    if !line.contains('>') {
        return line.starts_with("tcpdump: ");
    }
    let Some((_, after)) = line.split_once(" > ") else { return line.starts_with("tcpdump: ") };
    let is_packet = [": Flags [", ": UDP, ", ": ICMP ", ": SCTP ", " ethertype ", ": [udp", ": tcp "]
        .iter()
        .any(|mark| after.contains(mark))
        || after.contains("length ") && after.contains(": ");
    let start = line.split(' ').next().unwrap_or_default();
    let is_address = || start.matches('.').count() >= 3 || start.contains("::");
    is_packet
        && (is_time(start)
            || is_address()
            || line.starts_with("IP ")
            || line.starts_with("IP6 ")
            || line.contains(" IP ")
            || line.contains(" In ")
            || line.contains(" Out "))
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    if !knows(lines.first()?.text.trim()) {
        return None;
    }
    // With `-v` a packet has a second, indented line.
    let taken =
        run(lines, |line| knows(line.trim()) || line.starts_with("    ") || is_time(line) && line.contains(" IP"));
    let packets = lines[..taken].iter().filter(|line| line.text.contains(" > ")).count();
    Some(Block::new(Format::Tcpdump, taken.max(1), Contents::Entries(packets)))
}
