//! A text without the line breaks that a terminal inserted.

use std::borrow::Cow;
use std::collections::HashMap;

use super::format::{cut_width, goes_on};
use super::line::{Line, lines};
use super::prefixes::peel;

/// A text with the lines in one that a terminal wrapped: those between two fences if they were wrapped at one width, with or without what
/// mail and web pages have put in front of them afterwards.
#[doc(hidden)]
pub fn unwrapped(text: &str) -> Cow<'_, str> {
    let all = lines(text);
    let mut peeled = all.clone();
    peel(&mut peeled);
    let mut ends: Vec<usize> = (0..all.len()).filter(|at| peeled[*at].is_fence()).map(|at| at + 1).collect();
    ends.push(all.len());
    let mut rests: HashMap<usize, &str> = HashMap::new();
    let (own, peeled) = (&all, &peeled);
    let mut start = 0;
    for end in ends {
        let after_marks = rests_of(&peeled[start..end]);
        let is_marked = !after_marks.is_empty();
        let found = if is_marked { after_marks } else { rests_of(&own[start..end]) };
        // The line before has the marks of both.
        let shown =
            |at: usize| if is_marked && peeled[at].mends != own[at].mends { &*peeled[at].text } else { own[at].raw };
        rests.extend(found.into_iter().map(|at| (start + at, shown(start + at))));
        start = end;
    }
    if rests.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    for (at, line) in all.iter().enumerate() {
        joined.push_str(rests.get(&at).copied().unwrap_or(line.raw));
        if !rests.contains_key(&(at + 1)) {
            joined.push('\n');
        }
    }
    Cow::Owned(joined)
}

/// The lines that are the rests of those before them.
fn rests_of(lines: &[Line<'_>]) -> Vec<usize> {
    let Some(width) = cut_width(lines) else { return Vec::new() };
    let goes_on = |pair: &[Line<'_>]| pair[0].text.chars().count() == width && goes_on(pair);
    (1..).zip(lines.windows(2)).filter(|(_, pair)| goes_on(pair)).map(|(at, _)| at).collect()
}
