//! Formats: one file each; `terminal`: lines that a terminal wrapped.
//!
//! Each has `knows`, whether a line by itself is surely of the format, and `read`, which takes the lines from a place on and returns the
//! block of the format that starts there.

mod conntrack;
mod describe;
mod ifconfig;
mod ip;
mod ipset;
mod json;
mod listing;
mod log;
mod manifest;
mod nft;
mod object_shape;
mod save;
mod sysctl;
mod table;
mod tcpdump;
mod terminal;

pub(super) use json::is_of_json;
pub(super) use nft::iptables_nft::is_rule as is_rule_of_nft;
pub(super) use terminal::{cut_width, goes_on, wrapping_width};

use super::command::{Command, command};
use super::line::{Line, is_omission};
use super::model::{Contents, Format};
use super::repairs::RepairSet;

/// What comes before a block.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    /// The command whose output it may be.
    pub(super) command: Option<Command>,
    /// Whether `...` stands between the command and the block: then lines of its output are left out.
    pub(super) has_gap: bool,
}

/// Lines of one format that follow each other.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) format: Format,
    /// How many lines it takes, at least one.
    pub(super) taken: usize,
    pub(super) contents: Contents,
    /// Lines within it that could not be read: positions from its first line, and why.
    pub(super) unread: Vec<(usize, String)>,
    /// Changes to lines, given by their numbers in the text, apart from those the lines had before.
    pub(super) mends: Vec<(usize, RepairSet)>,
}

impl Block {
    fn new(format: Format, taken: usize, contents: Contents) -> Self {
        Self { format, taken, contents, unread: Vec::new(), mends: Vec::new() }
    }
}

/// Reads the block that starts with the first of some lines.
type Reader = fn(&[Line<'_>], &Context) -> Option<Block>;

/// The readers, the surest first.
const READERS: [Reader; 15] = [
    save::read,
    listing::read,
    nft::iptables_nft::read,
    nft::read,
    log::read,
    json::read,
    manifest::read,
    table::read,
    conntrack::read,
    ip::read,
    ifconfig::read,
    ipset::read,
    tcpdump::read,
    sysctl::read,
    describe::read,
];

/// A whole text of one format without a mistake, which is read at once.
pub(super) fn whole(text: &str) -> Option<Contents> {
    // A remark may stand for lines that a person left out.
    let is_omission = |line: &str| line.trim_start().starts_with('#') && is_omission(line.trim());
    if text.lines().any(is_omission) {
        return None;
    }
    save::whole(text).or_else(|| nft::whole(text))
}

/// The block that starts with the first of these lines.
pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    READERS.iter().find_map(|read| read(lines, context))
}

/// Whether a line starts a table of nft's text, or a part of one.
pub(super) fn starts_nft(line: &str) -> bool {
    nft::is_start(line)
}

/// Whether a line is the heading of a table of kubectl, or of a chain or its columns in a listing of iptables.
pub(super) fn is_heading_of_output(line: &str) -> bool {
    table::is_heading(line) || listing::is_heading(line) || listing::is_columns(line)
}

/// Whether a line by itself is surely of a format, or a command.
pub(super) fn knows(line: &str) -> bool {
    let line = line.trim_end();
    if line.is_empty() {
        return false;
    }
    knows_block(line) || command(line).is_some()
}

/// Whether a line by itself is surely the start of a block.
pub(super) fn knows_block(line: &str) -> bool {
    const KNOWS: [fn(&str) -> bool; 13] = [
        save::knows,
        listing::knows,
        nft::knows,
        manifest::knows,
        table::knows,
        log::knows,
        conntrack::knows,
        ip::knows,
        ipset::knows,
        tcpdump::knows,
        sysctl::knows,
        describe::knows,
        json::knows,
    ];
    KNOWS.iter().any(|knows| knows(line))
}

/// The number of lines from the first that satisfy a condition, blank ones between them included.
fn run(lines: &[Line<'_>], mut is_own: impl FnMut(&str) -> bool) -> usize {
    let mut taken = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.is_blank() {
            continue;
        }
        if line.is_fence() || !is_own(&line.text) {
            break;
        }
        taken = at + 1;
    }
    taken
}
