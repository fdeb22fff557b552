//! Lines of nft's text that a terminal wrapped. nft indents every line of a table, so the rest of a line is one that is not.

use super::blocks::punctuation;
use super::command::command;
use super::format;
use super::line::Line;
use super::repairs::Repair;

/// How wide a terminal shows a tab.
const TAB: usize = 8;

/// Joins the lines of nft's tables that were wrapped at one width. What was joined leaves a blank line.
pub(super) fn join(lines: &mut [Line<'_>]) {
    let mut at = 0;
    while at < lines.len() {
        if !format::starts_nft(lines[at].text.trim()) {
            at += 1;
            continue;
        }
        let is_end = |line: &Line<'_>| line.is_fence() || command(line.text.trim()).is_some();
        let length = lines[at..].iter().position(is_end).unwrap_or(lines.len() - at).max(1);
        join_in(&mut lines[at..at + length]);
        at += length;
    }
}

fn join_in(lines: &mut [Line<'_>]) {
    // What all lines are indented by was put in front of them after they were wrapped.
    let margin = lines[0].text.len() - lines[0].text.trim_start().len();
    let margin = lines[0].text[..margin].to_owned();
    let lengths_of = |length_of: fn(&str) -> usize| -> Vec<usize> {
        lines.iter().map(|line| length_of(within(&line.text, &margin))).collect()
    };
    let found = [lengths_of(characters), lengths_of(columns)].into_iter();
    let Some((width, lengths)) = found.filter_map(|lengths| Some((width(lines, &lengths, &margin)?, lengths))).next()
    else {
        return;
    };
    let mut at = 0;
    while at + 1 < lines.len() {
        let start = at;
        let mut joined = String::new();
        while lengths[at] == width && at + 1 < lines.len() && is_rest(&lines[at].text, &lines[at + 1], &margin) {
            if joined.is_empty() {
                joined.push_str(&lines[at].text);
            }
            at += 1;
            joined.push_str(within(&lines[at].text, &margin));
            lines[at] = lines[at].with("", Repair::Wrapped);
        }
        if at > start {
            lines[start] = lines[start].with(joined, Repair::Wrapped);
        }
        at += 1;
    }
}

/// The length of the longest lines, if they go on in the next.
fn width(lines: &[Line<'_>], lengths: &[usize], margin: &str) -> Option<usize> {
    let goes_on = |at: usize| lines.get(at + 1).map(|next| is_rest(&lines[at].text, next, margin));
    format::wrapping_width(lengths, goes_on, |at| is_open(&lines[at].text))
}

/// A line without what all are indented by.
fn within<'l>(text: &'l str, margin: &str) -> &'l str {
    text.strip_prefix(margin).unwrap_or(text)
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// The columns that a terminal shows a line in.
fn columns(text: &str) -> usize {
    text.chars().fold(0, |at, letter| if letter == '\t' { (at / TAB + 1) * TAB } else { at + 1 })
}

/// Whether a line goes on in the next, which is not indented as nft's lines are, and is not what ends a table.
fn is_rest(before: &str, next: &Line<'_>, margin: &str) -> bool {
    let text = within(&next.text, margin);
    let is_indented = text.starts_with('\t') || text.starts_with("  ");
    let is_other = text.trim().is_empty() || next.is_fence() || format::starts_nft(text);
    !is_indented && !is_other && (text.trim() != "}" || opens(before))
}

/// Whether a line ends in quotes or in a list, which no line of nft's does.
fn is_open(line: &str) -> bool {
    line.matches('"').count() % 2 == 1 || opens(line)
}

/// Whether a line opens a list that it does not close. A chain's heading ends with its brace.
fn opens(line: &str) -> bool {
    let braces = punctuation(line).filter(|(_, letter)| *letter != ';');
    let (open, last) =
        braces.fold((0, 0), |(open, _), (at, letter)| (if letter == '{' { open + 1 } else { open - 1 }, at));
    open > 0 && last + 1 < line.trim_end().len()
}
