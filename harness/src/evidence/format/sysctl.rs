//! `sysctl -a`, and lines of it.

use super::super::line::Line;
use super::super::model::{Contents, Format, Setting};
use super::{Block, Context, run};

pub(super) fn knows(line: &str) -> bool {
    setting(line).is_some()
}

/// `net.ipv4.ip_forward = 1`
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let starts = ["net.ipv4.", "net.ipv6.", "net.bridge.", "net.netfilter.", "net.core.", "net.nf_conntrack"];
    let is_name = starts.iter().any(|start| name.starts_with(start)) && !name.contains(char::is_whitespace);
    is_name.then_some((name, value.trim()))
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let taken = run(lines, |line| knows(line.trim()));
    let of_line = |line: &Line<'_>| {
        let (name, value) = setting(line.text.trim())?;
        Some(Setting { line: line.number, name: name.to_owned(), value: value.to_owned() })
    };
    let settings = lines[..taken].iter().filter_map(of_line).collect();
    (taken > 0).then(|| Block::new(Format::Sysctl, taken, Contents::Settings(settings)))
}
