//! The lines of a YAML text. In YAML, a lone carriage return also ends a line; places in messages count only line feeds.

use super::tree::Mark;

/// The lines of a text as YAML counts them.
pub(super) struct Lines<'a> {
    all: Vec<Line<'a>>,
}

struct Line<'a> {
    text: &'a str,
    /// Its line counted by line feeds, from 1.
    number: usize,
    /// The number of characters before it in that line.
    before: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut before = 0;
            for text in line.split('\r') {
                all.push(Line { text, number, before });
                before += text.chars().count() + 1;
            }
        }
        Self { all }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the text of a YAML line, from 1.
    pub(super) fn text(&self, line: usize) -> &'a str {
        line.checked_sub(1).and_then(|at| self.all.get(at)).map_or("", |line| line.text)
    }

    /// Returns the place for a YAML line, from 1, and column, from 0; after the last line it is the next one.
    pub(super) fn mark(&self, line: usize, column: usize, length: usize) -> Mark {
        let (number, before) = match line.checked_sub(1).and_then(|at| self.all.get(at)) {
            Some(line) => (line.number, line.before),
            None => (self.all.last().map_or(1, |last| last.number + 1), 0),
        };
        Mark { line: number as u32, column: (before + column) as u32 + 1, length: length.max(1) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_carriage_return_ends_a_line_of_yaml_alone() {
        let lines = Lines::of("a:\rb: 1\r\nc: ü\rd\n");
        assert_eq!([1, 2, 3, 4, 5].map(|line| lines.text(line)), ["a:", "b: 1", "c: ü", "d", ""]);
        let place = |line, column| {
            let mark = lines.mark(line, column, 0);
            (mark.line, mark.column, mark.length)
        };
        assert_eq!(place(1, 0), (1, 1, 1));
        assert_eq!(place(2, 3), (1, 7, 1));
        assert_eq!(place(3, 3), (2, 4, 1));
        assert_eq!(place(4, 0), (2, 6, 1));
        assert_eq!(place(5, 0), (3, 1, 1));
    }
}
