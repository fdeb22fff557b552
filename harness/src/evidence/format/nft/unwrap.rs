//! Lines of nft's text that a terminal or mail wrapped: nft indents all lines within a table, so one that is not indented is the rest of
//! the line before it.

use std::borrow::Cow;

use crate::evidence::line::Line;

/// The lines of a block with every rest joined to its line; its own line stays, and is empty.
pub(super) fn unwrapped<'t>(block: &[Line<'t>]) -> Vec<Line<'t>> {
    let mut lines = block.to_vec();
    let is_indented =
        block.iter().skip(1).find(|line| !line.is_blank()).is_some_and(|line| line.text.starts_with('\t'));
    if !is_indented {
        return lines;
    }
    let rests: Vec<usize> = (2..block.len()).filter(|at| is_rest(&block[*at]) && may_go_on(&block[at - 1])).collect();
    let is_at_edge = edge(block, &rests);
    let mut first = 0;
    for (number, at) in rests.iter().enumerate() {
        if number == 0 || rests[number - 1] + 1 != *at {
            first = at - 1;
        }
        let glue = if is_at_edge(&block[at - 1]) { "" } else { " " };
        let joined = format!("{}{glue}{}", lines[first].text, block[*at].text);
        lines[first].text = Cow::Owned(joined);
        lines[*at].text = Cow::Borrowed("");
    }
    lines
}

/// Whether a line may be the rest of the one before it.
fn is_rest(line: &Line<'_>) -> bool {
    let is_own = line.text.starts_with(['\t', '}', '#']) || line.text.starts_with("  ");
    !is_own && !line.is_blank() && !line.is_ellipsis()
}

/// Whether a line may go on in the next one.
fn may_go_on(line: &Line<'_>) -> bool {
    let text = line.text.trim_end();
    !text.is_empty() && !text.ends_with('{') && text != "}" && !line.is_ellipsis()
}

/// Which of the lines before rests end at the edge of a terminal, which wraps anywhere. All of those are equally long, but for blanks that
/// were cut off at the edge; mail wraps between words, so lengths differ.
fn edge<'t>(block: &[Line<'t>], rests: &[usize]) -> impl Fn(&Line<'t>) -> bool + use<'t> {
    // A copy has tabs or the blanks that a terminal shows for them.
    let widths: [fn(&Line<'_>) -> usize; 2] = [
        |line| line.text.chars().count(),
        |line| line.text.chars().map(|letter| if letter == '\t' { 8 } else { 1 }).sum(),
    ];
    let found = widths.into_iter().find_map(|width| {
        let all = || rests.iter().map(|at| width(&block[at - 1]));
        let longest = all().max()?;
        all().all(|own| own + 1 >= longest).then_some((width, longest))
    });
    move |line| found.is_some_and(|(width, longest)| width(line) == longest)
}
