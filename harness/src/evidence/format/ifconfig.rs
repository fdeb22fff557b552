//! `ifconfig`.

use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::ip::addresses;
use super::{Block, Context, run};

/// `eth0: flags=4163<UP,...>  mtu 1500`, `eth0      Link encap:Ethernet  HWaddr ...`
fn is_interface(line: &str) -> bool {
    !line.starts_with([' ', '\t'])
        && (line.contains(": flags=") && line.contains("mtu ") || line.contains("Link encap:"))
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    if !is_interface(lines.first()?.text.trim_end()) {
        return None;
    }
    let taken = run(lines, |line| is_interface(line) || line.starts_with([' ', '\t']));
    let entries = lines[..taken].iter().filter(|line| is_interface(&line.text)).count();
    let own = addresses(&lines[..taken]);
    Some(Block::new(Format::Ifconfig, taken, Contents::Addresses(own, entries)))
}
