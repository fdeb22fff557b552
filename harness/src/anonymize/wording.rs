//! Which lines of a text are sentences, commands, or output.

use super::token::Wording;
use crate::evidence::{Evidence, Stretch};

/// Returns the lines of a text, with their ends, and what each is.
pub(super) fn wordings<'t>(text: &'t str, evidence: &Evidence) -> impl Iterator<Item = (&'t str, Wording)> {
    let mut prose = Lines::of(&evidence.prose);
    let mut commands = Lines::of(&evidence.commands);
    (1..).zip(text.split_inclusive('\n')).map(move |(number, line)| {
        let (is_prose, is_command) = (prose.has(number), commands.has(number));
        let wording = match () {
            () if is_command => Wording::Command,
            () if is_prose => Wording::Sentence,
            () => Wording::Output,
        };
        (line, wording)
    })
}

/// Stretches of lines in their order, looked up in that order.
struct Lines(std::iter::Peekable<std::vec::IntoIter<(usize, usize)>>);

impl Lines {
    fn of(stretches: &[Stretch]) -> Self {
        let all: Vec<(usize, usize)> = stretches.iter().map(|own| (own.first, own.last)).collect();
        Self(all.into_iter().peekable())
    }

    /// Whether a line is in them; lines before it are not asked for again.
    fn has(&mut self, number: usize) -> bool {
        while self.0.next_if(|(_, last)| *last < number).is_some() {}
        self.0.peek().is_some_and(|(first, _)| *first <= number)
    }
}
