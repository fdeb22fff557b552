//! Lines that a terminal wrapped at its width, in the middle of words.

use super::super::line::Line;
use super::{command, knows_block};

/// The most lines by which the width of a terminal is found.
const SAMPLE: usize = 400;

/// The narrowest terminal at which rows are taken for wrapped.
const NARROWEST: usize = 60;

/// Follows lines of which some are output: those of a format, and those after one up to a blank line.
#[derive(Default)]
struct Output(bool);

impl Output {
    /// Whether the next line is output.
    fn has(&mut self, line: &Line<'_>) -> bool {
        self.0 = !line.is_blank() && (self.0 || knows_block(line.text.trim()));
        self.0
    }
}

/// The lines of the output that starts with the first one, up to a sentence or a command.
pub(super) fn first_output<'l, 't>(lines: &'l [Line<'t>]) -> &'l [Line<'t>] {
    let mut output = Output::default();
    let is_over = |line: &Line<'_>| {
        let is_output = output.has(line);
        line.is_fence() || command(line.text.trim()).is_some() || !is_output && !line.is_blank()
    };
    let end = lines.iter().take(SAMPLE).position(is_over).unwrap_or(lines.len().min(SAMPLE));
    &lines[..end]
}

/// The width of the terminal that wrapped lines, in characters: that of the longest lines, if most of them, and several, go on in a line that
/// is of no format. Sentences are not what it wrapped.
pub(in super::super) fn width(lines: &[Line<'_>]) -> Option<usize> {
    let mut output = Output::default();
    let own = lines.iter().take(SAMPLE).take_while(|line| !line.is_fence());
    let length = |line: &Line<'_>| if output.has(line) { line.text.chars().count() } else { 0 };
    let lengths: Vec<usize> = own.map(length).collect();
    let width = lengths.iter().copied().max().filter(|width| *width >= NARROWEST)?;
    let longest = || lengths.iter().zip(lines.iter().skip(1)).filter(|(length, _)| **length == width);
    let wrapped = longest().filter(|(_, next)| is_rest(next)).count();
    (wrapped >= 2 && wrapped * 2 > longest().count()).then_some(width)
}

/// Whether a line is the rest of another one: it is of no format, and has no column of options. A row may end in blanks.
pub(in super::super) fn is_rest(line: &Line<'_>) -> bool {
    let text = line.text.trim();
    let is_other = || line.is_fence() || text.contains("-- ") || knows_block(text) || command(text).is_some();
    if text.is_empty() { !line.text.is_empty() } else { !is_other() }
}
