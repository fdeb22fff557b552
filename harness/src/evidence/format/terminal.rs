//! Lines that a terminal wrapped at its width, in the middle of words.

use std::borrow::Cow;

use super::super::line::{Line, lines};
use super::{command, knows_block};

/// The most lines by which the width of a terminal is found.
const SAMPLE: usize = 400;

/// The narrowest terminal at which rows are taken for wrapped.
const NARROWEST: usize = 60;

/// The width of the terminal that wrapped lines, in characters: that of the longest lines, if most of them, and several, go on in a line that
/// is of no format.
pub(super) fn width(lines: &[Line<'_>]) -> Option<usize> {
    let own = lines.iter().take(SAMPLE).take_while(|line| !line.is_fence());
    let lengths: Vec<usize> = own.map(|line| line.text.chars().count()).collect();
    let width = lengths.iter().copied().max().filter(|width| *width >= NARROWEST)?;
    let longest = || lengths.iter().zip(lines.iter().skip(1)).filter(|(length, _)| **length == width);
    let wrapped = longest().filter(|(_, next)| is_rest(next)).count();
    (wrapped >= 2 && wrapped * 2 > longest().count()).then_some(width)
}

/// Whether a line is the rest of another one: it is of no format, and has no column of options. A row may end in blanks.
pub(super) fn is_rest(line: &Line<'_>) -> bool {
    let text = line.text.trim();
    let is_other = || line.is_fence() || text.contains("-- ") || knows_block(text) || command(text).is_some();
    if text.is_empty() { !line.text.is_empty() } else { !is_other() }
}

/// A text with the lines in one that a terminal wrapped, if all of it was wrapped at one width.
#[doc(hidden)]
pub fn unwrapped(text: &str) -> Cow<'_, str> {
    let all = lines(text);
    let Some(width) = width(&all) else { return Cow::Borrowed(text) };
    let mut joined = String::with_capacity(text.len());
    for (at, line) in all.iter().enumerate() {
        joined.push_str(line.raw);
        let goes_on = line.text.chars().count() == width && all.get(at + 1).is_some_and(is_rest);
        if !goes_on {
            joined.push('\n');
        }
    }
    Cow::Owned(joined)
}
