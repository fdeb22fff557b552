//! `ipset save` and `ipset list`.

use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::{Block, Context, run};

pub(super) fn knows(line: &str) -> bool {
    if !line.starts_with("create ") && !line.starts_with("add ") {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    matches!(words.as_slice(), ["create", _, kind, ..] if ["hash:", "bitmap:", "list:"].iter().any(|start| kind.starts_with(start)))
        || matches!(words.as_slice(), ["add", set, entry] | ["add", set, entry, _] if !set.starts_with('-') && entry.starts_with(|letter: char| letter.is_ascii_hexdigit()) && entry.contains(['.', ':']))
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let taken = run(lines, |line| knows(line.trim()));
    let entries = lines[..taken].iter().filter(|line| line.text.trim_start().starts_with("add ")).count();
    (taken > 0).then(|| Block::new(Format::Ipset, taken, Contents::Entries(entries)))
}
