//! Pages for a terminal: styles, indents, and line wrapping.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, core::display_width};

/// Successes.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Failures.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Text that needs the reader's attention.
pub(crate) const MARKED: Style = AnsiColor::Yellow.on_default();
/// Bars and other drawn quantities.
pub(crate) const DRAWN: Style = AnsiColor::Cyan.on_default();
/// Headings.
pub(crate) const STRONG: Style = Style::new().bold();
/// Secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// The maximum width of a page, and the width without a terminal.
pub(crate) const WIDEST: usize = 120;
/// The minimum width of a page: narrower terminals wrap lines themselves.
const NARROWEST: usize = 40;
/// The additional indent of continuation lines.
const HANG: usize = 4;

/// Settings of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether the page is coloured with ANSI escape sequences.
    pub colours: bool,
    /// The level of detail.
    pub detail: Detail,
    /// The width in columns: longer lines are wrapped between words.
    pub width: usize,
}

/// The level of detail. Failures are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Detail {
    /// Only failures.
    Quiet,
    /// The default.
    #[default]
    Normal,
    /// Everything: each endpoint, each interface on a packet's path.
    Verbose,
}

impl Default for Settings {
    fn default() -> Self {
        Self { colours: false, detail: Detail::default(), width: WIDEST }
    }
}

impl Settings {
    /// These settings for a terminal with this many columns, if there is one.
    pub fn fitting(self, columns: Option<usize>) -> Self {
        Self { width: columns.unwrap_or(WIDEST).clamp(NARROWEST, WIDEST), ..self }
    }

    /// Whether only failures are reported.
    pub(crate) fn is_quiet(&self) -> bool {
        self.detail == Detail::Quiet
    }

    /// Whether everything is reported.
    pub(crate) fn is_verbose(&self) -> bool {
        self.detail == Detail::Verbose
    }
}

/// Returns the lines of a text, wrapped to a width, without a final newline.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut page = Page::new(Settings { width, ..Settings::default() });
    page.lines(text);
    let mut wrapped = page.finish();
    wrapped.pop();
    wrapped
}

/// Text under construction.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    pub(crate) settings: Settings,
}

/// A placeholder for a space at which lines are not wrapped.
const BOUND: char = '\u{e000}';

/// Protects the quoted words of a shell command from wrapping: a backslash inside quotes would be part of the word.
fn bound(command: &str) -> String {
    let (mut is_quoted, mut before) = (false, ' ');
    let bind = |letter| {
        // A backslash is literal inside single quotes, and escapes a quote outside.
        is_quoted ^= letter == '\'' && (is_quoted || before != '\\');
        before = letter;
        if is_quoted && letter == ' ' { BOUND } else { letter }
    };
    command.chars().map(bind).collect()
}

impl Page {
    /// An empty page.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { text: String::new(), settings }
    }

    /// Adds text with this indent; if it is wrapped, the rest is indented a little further.
    pub(crate) fn line(&mut self, indent: usize, text: impl Display) {
        self.wrap(&" ".repeat(indent), indent + HANG, &text.to_string());
    }

    /// Adds a label and a text after it; if the text is wrapped, the rest is aligned with its start.
    pub(crate) fn labelled(&mut self, indent: usize, label: impl Display, text: impl Display) {
        let label = format!("{:indent$}{label}", "");
        self.wrap(&label, display_width(&label), &text.to_string());
    }

    /// Adds a row of a table, which is not wrapped.
    pub(crate) fn row(&mut self, indent: usize, text: impl Display) {
        self.push(&format!("{:indent$}{text}", ""));
    }

    /// Adds a table with headings and rows, whose first cell is a name. If the page is too narrow, columns are set closer together; if that is
    /// not enough, each row becomes a line that repeats the heading of each cell.
    pub(crate) fn table(&mut self, indent: usize, headings: &[&str], rows: &[Vec<String>]) {
        let of_column = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let widest = |column: usize| of_column(column).map(|cell| display_width(cell)).max().unwrap_or(0);
        let widths: Vec<usize> =
            headings.iter().enumerate().map(|(at, heading)| widest(at).max(display_width(heading))).collect();
        let needed = |gap: usize| indent + widths.iter().map(|width| width + gap).sum::<usize>().saturating_sub(gap);
        let Some(gap) = [2, 1].into_iter().find(|gap| needed(*gap) <= self.settings.width) else {
            rows.iter().for_each(|row| self.labelled_cells(indent, headings, row));
            return;
        };
        let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
        for row in std::iter::once(&headings).chain(rows) {
            let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
                0 => format!("{cell:width$}"),
                _ => format!("{:gap$}{cell:>width$}", ""),
            });
            self.row(indent, cells.collect::<String>());
        }
    }

    /// Adds a row of a table as a line.
    fn labelled_cells(&mut self, indent: usize, headings: &[&str], row: &[String]) {
        let cells = row.iter().zip(headings).skip(1).filter(|(cell, _)| !cell.is_empty());
        let cells: Vec<String> = cells.map(|(cell, heading)| format!("{heading} {cell}")).collect();
        self.labelled(indent, format!("{}  ", row.first().map_or("", String::as_str)), cells.join(", "));
    }

    /// Adds a shell command after a label. If it is wrapped, lines end with a backslash, so that it can still be copied.
    pub(crate) fn command(&mut self, indent: usize, label: &str, command: &str) {
        let hang = indent + display_width(label);
        let label = format!("{:indent$}{}", "", self.paint(FAINT, label));
        let lines = self.wrapped(&label, hang, &bound(command), 2);
        self.push(&lines.join(" \\\n").replace(BOUND, " "));
    }

    /// Adds an empty line, unless the page is empty or already ends with one.
    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Adds the lines of a text, keeping their indents.
    pub(crate) fn lines(&mut self, text: &str) {
        for line in text.split('\n') {
            let content = line.trim_start_matches(' ');
            self.line(line.len() - content.len(), content);
        }
    }

    /// Styles a text. Pad it before: escape sequences have no width.
    pub(crate) fn paint(&self, style: Style, text: impl Display) -> String {
        if self.settings.colours { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// The complete text.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn wrap(&mut self, first: &str, hang: usize, text: &str) {
        let lines = self.wrapped(first, hang, text, 0);
        styled_alone(&lines).iter().for_each(|line| self.push(line));
    }

    /// Wraps a text so that this many columns stay free at the ends of lines.
    fn wrapped(&self, first: &str, hang: usize, text: &str, free: usize) -> Vec<String> {
        let width = self.settings.width;
        // Text that starts far to the right still gets half the width.
        let indent = " ".repeat(hang.min(width / 2));
        let options = Options::new(width - free)
            .initial_indent(first)
            .subsequent_indent(&indent)
            .break_words(false)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation);
        let mut lines: Vec<String> = textwrap::wrap(text, &options).into_iter().map(Into::into).collect();
        // If not even the first word fits after a label, the label gets a line of its own.
        if !first.trim().is_empty() && lines.first().is_some_and(|line| display_width(line) > width - free) {
            let narrow = " ".repeat(hang.min(width / 4));
            let options = options.initial_indent(&narrow).subsequent_indent(&narrow);
            lines = textwrap::wrap(text, options).into_iter().map(Into::into).collect();
            lines.insert(0, first.trim_end().to_owned());
        }
        lines
    }

    fn push(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }
}

/// Lines that each set their own colours: pagers and the logs of CI systems reset them at the end of a line.
fn styled_alone(lines: &[String]) -> Vec<String> {
    const RESET: &str = "\x1b[0m";
    let mut open = String::new();
    let mut styled = Vec::with_capacity(lines.len());
    for line in lines {
        let before = open.clone();
        for (at, _) in line.match_indices('\x1b') {
            let end = line[at..].find('m').map_or(line.len(), |end| at + end + 1);
            match &line[at..end] {
                RESET => open.clear(),
                sequence => open += sequence,
            }
        }
        styled.push(format!("{before}{line}{}", if open.is_empty() { "" } else { RESET }));
    }
    styled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize, colours: bool) -> Page {
        Page::new(Settings { colours, width, ..Settings::default() })
    }

    #[test]
    fn long_lines_are_wrapped_and_aligned() {
        let mut page = page(40, false);
        page.line(2, "a line that is longer than forty columns can hold");
        page.labelled(2, "promised  ", "delivered to 10.244.2.2:80, with its source preserved");
        page.row(0, "a row of a table that has more than forty columns");
        page.command(2, "next  ", "svclab explain scenario.yaml --from pod/client --live");
        let expected = "  a line that is longer than forty
      columns can hold
  promised  delivered to 10.244.2.2:80,
            with its source preserved
a row of a table that has more than forty columns
  next  svclab explain scenario.yaml \\
        --from pod/client --live
";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn quoted_words_of_commands_stay_whole() {
        let mut page = page(30, false);
        page.command(0, "", "svclab explain --live -- 'my own issues/it'\\''s an issue.txt'");
        let expected = "svclab explain --live -- \\\n'my own issues/it'\\''s an issue.txt'\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn every_line_has_its_own_colours() {
        let mut page = page(40, true);
        let words = page.paint(FAINT, "a line that is longer than forty columns can hold");
        page.line(0, words);
        let expected = "\x1b[2ma line that is longer than forty columns\x1b[0m\n\x1b[2m    can hold\x1b[0m\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn a_long_label_has_a_line_of_its_own() {
        let mut page = page(40, false);
        page.labelled(2, "12  node/kube-worker2  flannel.1  in   ", "203.0.113.10:33000 > 10.96.0.80:80 tcp");
        let expected =
            "  12  node/kube-worker2  flannel.1  in\n          203.0.113.10:33000 >\n          10.96.0.80:80 tcp\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn tables_that_do_not_fit_become_lines() {
        let rows = [["pod/client", "9 of 12", ""], ["node/a", "6", "24"]].map(|row| row.map(str::to_owned).to_vec());
        let table = |width: usize| {
            let mut page = page(width, false);
            page.table(2, &["", "cluster IP", "load balancer"], &rows);
            page.finish()
        };
        let wide = "              cluster IP  load balancer\n  pod/client     9 of 12\n  node/a               6             24\n";
        assert_eq!(table(39), wide);
        let closer =
            "             cluster IP load balancer\n  pod/client    9 of 12\n  node/a              6            24\n";
        assert_eq!([table(38), table(37)], [closer, closer]);
        let narrow = "  pod/client  cluster IP 9 of 12\n  node/a  cluster IP 6, load\n          balancer 24\n";
        assert_eq!(table(36), narrow);
    }

    #[test]
    fn gaps_are_single() {
        let mut page = page(40, false);
        page.gap();
        page.line(0, "a");
        page.gap();
        page.gap();
        page.line(0, "b");
        assert_eq!(page.finish(), "a\n\nb\n");
    }
}
