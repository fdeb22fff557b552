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
pub(super) fn width(lines: &[Line<'_>]) -> Option<usize> {
    let mut output = Output::default();
    let own = lines.iter().take(SAMPLE).take_while(|line| !line.is_fence());
    let length = |line: &Line<'_>| if output.has(line) { line.text.chars().count() } else { 0 };
    let lengths: Vec<usize> = own.map(length).collect();
    wrapping_width(&lengths, |at| lines.get(at..at + 2).map(goes_on), |_| false)
}

/// The width of the terminal that cut lines within words; `None` also where they were broken between words.
pub(in super::super) fn cut_width(lines: &[Line<'_>]) -> Option<usize> {
    width(lines).filter(|width| !breaks_at_words(lines, *width))
}

/// Whether lines were broken between words: one that is shorter than the width goes on with a word that had no room in it. Where a blank was
/// at the break, it may be gone.
fn breaks_at_words(lines: &[Line<'_>], width: usize) -> bool {
    lines.windows(2).any(|pair| {
        let word = pair[1].text.trim_start().split(' ').next().unwrap_or_default().chars().count();
        let length = pair[0].text.chars().count();
        word > 0 && length < width && length + 1 + word > width && goes_on(pair)
    })
}

/// The width at which a terminal wrapped lines of these lengths: the length of the longest ones, if most of them continue in the next
/// line, and at least two do, or one that certainly does (`is_sure`). Both functions are given the position of a line; `goes_on` returns
/// `None` for the last one.
pub(in super::super) fn wrapping_width(
    lengths: &[usize],
    goes_on: impl Fn(usize) -> Option<bool>,
    is_sure: impl Fn(usize) -> bool,
) -> Option<usize> {
    let width = lengths.iter().copied().max().filter(|width| *width >= NARROWEST)?;
    let longest = (0..lengths.len()).filter(|at| lengths[*at] == width);
    let longest: Vec<(usize, bool)> = longest.filter_map(|at| Some((at, goes_on(at)?))).collect();
    let wrapped: Vec<usize> = longest.iter().filter(|(_, goes_on)| *goes_on).map(|(at, _)| *at).collect();
    let is_certain = wrapped.len() >= 2 || wrapped.iter().any(|at| is_sure(*at));
    (is_certain && wrapped.len() * 2 > longest.len()).then_some(width)
}

/// Whether the second of two lines is the rest of the first. No terminal indents a rest as deep as the line, as nft indents rules.
pub(in super::super) fn goes_on(pair: &[Line<'_>]) -> bool {
    let [own, next] = [&pair[0], &pair[1]].map(|line| line.text.len() - line.text.trim_start().len());
    let is_of_nft = own >= 2 && next >= own && !pair[1].is_blank();
    !is_of_nft && is_rest(&pair[1])
}

/// Whether a line is the rest of another one: it is of no format, and has no column of options. A row may end in blanks.
pub(in super::super) fn is_rest(line: &Line<'_>) -> bool {
    let text = line.text.trim();
    let is_other = || line.is_fence() || text.contains("-- ") || knows_block(text) || command(text).is_some();
    if text.is_empty() { !line.text.is_empty() } else { !is_other() }
}
