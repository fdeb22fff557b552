//! Which tables, chains, sets and maps of nft's text are closed, and so shown whole.

use std::collections::HashSet;
use std::ops::Range;

use svclab_rules::cluster::Family;
use svclab_rules::coverage::{Coverage, nft_table};

use super::line::Line;

/// A block that a brace opened.
struct Open {
    what: What,
    is_broken: bool,
}

/// What a block is.
enum What {
    Table(Option<Family>),
    Named(String),
    /// Elements, or an anonymous set.
    Other,
}

/// What lines show whole: what is closed, and has no line that could not be read or that stands for others. `headless` is the family of lines that are
/// in the table without showing its heading.
pub(super) fn coverage(lines: &[Line<'_>], headless: Option<Family>, unread: &[usize]) -> Coverage {
    let unread: HashSet<usize> = unread.iter().copied().collect();
    let mut coverage = Coverage::default();
    let mut open: Vec<Open> = Vec::new();
    if headless.is_some() {
        open.push(Open { what: What::Table(headless), is_broken: true });
    }
    for (at, line) in lines.iter().enumerate() {
        if line.is_ellipsis() || unread.contains(&at) || omits_elements(&line.text) {
            // Blocks around a broken one are broken already.
            open.iter_mut().rev().take_while(|block| !block.is_broken).for_each(|block| block.is_broken = true);
        }
        let mut start = 0;
        for (position, letter) in punctuation(&line.text) {
            match letter {
                '{' => {
                    let what = named(&line.text[start..position]);
                    if let What::Named(_) = what {
                        cut_within_table(&mut open, &mut coverage);
                    }
                    open.push(Open { what, is_broken: false });
                }
                '}' => {
                    if let Some(closed) = open.pop() {
                        let table = open.iter().find_map(table_of);
                        close(&closed, table, &mut coverage);
                    }
                }
                _ => {}
            }
            start = position + 1;
        }
    }
    cut_within_table(&mut open, &mut coverage);
    coverage
}

/// Where in a line dots stand for elements of a set or map: `elements = { ..., 10.96.0.1 }`, `... }`.
pub(super) fn omitted_elements(line: &str) -> Option<Range<usize>> {
    let dots = ["...", "…"].into_iter().find_map(|dots| Some((line.find(dots)?, dots.len())));
    let (start, length) = dots?;
    let (before, after) = (line[..start].trim_end(), &line[start + length..]);
    let is_between = before.ends_with(['{', ',']) || before.is_empty();
    let rest = after.trim_start();
    let comma = after.len() - rest.len() + usize::from(rest.starts_with(','));
    (is_between && rest.starts_with([',', '}']))
        .then_some(start..start + length + if rest.starts_with(',') { comma } else { 0 })
}

fn omits_elements(line: &str) -> bool {
    omitted_elements(line).is_some()
}

/// Closes the chain or set that is open: nothing did, so it is cut, and so is its table.
fn cut_within_table(open: &mut Vec<Open>, coverage: &mut Coverage) {
    let Some(at) = open.iter().position(|block| matches!(block.what, What::Named(_))) else { return };
    let table = open.iter().find_map(table_of);
    for block in open.drain(at..) {
        if let (What::Named(name), Some(table)) = (&block.what, table) {
            coverage.add_truncated(nft_table(table), name);
        }
    }
    open.iter_mut().for_each(|block| block.is_broken = true);
}

/// The braces and semicolons of a line that structure nft's text, with their positions: those in quotes and in comments do not.
pub(super) fn punctuation(line: &str) -> impl Iterator<Item = (usize, char)> {
    let letters = line.char_indices().scan((false, ' '), |(in_quotes, before), (at, letter)| {
        *in_quotes ^= letter == '"';
        let starts_comment = letter == '#' && !*in_quotes && before.is_whitespace();
        *before = letter;
        (!starts_comment).then_some((at, letter, *in_quotes))
    });
    letters
        .filter(|(_, letter, in_quotes)| !in_quotes && matches!(letter, '{' | '}' | ';'))
        .map(|(at, letter, _)| (at, letter))
}

/// The number of braces that are open after the lines so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Depth(usize);

impl Depth {
    /// Within a table, whose heading is not shown.
    pub(super) const IN_TABLE: Self = Self(1);

    /// Follows a line. Returns whether one of its braces closes the outermost block.
    pub(super) fn follow(&mut self, line: &str) -> bool {
        let mut is_closed = false;
        for (_, letter) in punctuation(line) {
            match letter {
                '{' => self.0 += 1,
                '}' => {
                    self.0 = self.0.saturating_sub(1);
                    is_closed |= self.0 == 0;
                }
                _ => {}
            }
        }
        is_closed
    }

    /// Leaves a chain or set that has lost its end, to its table. Returns the number of braces that are missing.
    pub(super) fn leave_part(&mut self) -> usize {
        let missing = self.0.saturating_sub(1);
        self.0 -= missing;
        missing
    }

    /// The number of braces.
    pub(super) fn open(self) -> usize {
        self.0
    }
}

fn table_of(block: &Open) -> Option<Family> {
    if let What::Table(family) = block.what { family } else { None }
}

fn close(closed: &Open, table: Option<Family>, coverage: &mut Coverage) {
    match (&closed.what, table) {
        (What::Table(Some(family)), _) if !closed.is_broken => coverage.add_table(nft_table(*family)),
        (What::Named(name), Some(table)) if closed.is_broken => coverage.add_truncated(nft_table(table), name),
        (What::Named(name), Some(table)) => coverage.add_chain(nft_table(table), name),
        _ => {}
    }
}

/// What the words before a brace open.
fn named(words: &str) -> What {
    let words: Vec<&str> = words.split_whitespace().collect();
    match words.as_slice() {
        ["table", "ip", "kube-proxy"] => What::Table(Some(Family::Ipv4)),
        ["table", "ip6", "kube-proxy"] => What::Table(Some(Family::Ipv6)),
        ["table", ..] => What::Table(None),
        ["chain" | "map" | "set", name] => What::Named((*name).to_owned()),
        _ => What::Other,
    }
}
