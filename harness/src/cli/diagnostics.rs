//! Printing of errors in an input, with the lines around them.

use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, MietteHandler, MietteHandlerOpts, NamedSource, ReportHandler, SourceCode};
use textwrap::{WordSeparator, WordSplitter};

use super::console::Console;
use svclab::input::{Diagnostic, Diagnostics, Span};
use svclab::input::{Group, is_input};
use svclab::text::{counted, is_interpreted, one_line, printable};

/// Prints all errors on standard error.
pub(crate) fn show(diagnostics: &Diagnostics, console: &Console) {
    let mut handler = MietteHandlerOpts::new()
        .color(console.error_color)
        .unicode(true)
        .terminal_links(false)
        .context_lines(1)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    if let Some(width) = console.error_width() {
        handler = handler.width(width);
    }
    let handler = handler.build();
    let groups = diagnostics.groups();
    for group in groups.iter().take(PRINTED) {
        let first = group.first;
        match diagnostics.sources.get(&first.span.file).filter(|text| can_be_shown(first, text)) {
            Some(text) => console.excerpt(Shown { handler: &handler, error: Error::new(group, text) }),
            None => console.complain(format!("{group}\n")),
        }
    }
    let more: usize = groups.iter().skip(PRINTED).map(|group| 1 + group.others.len()).sum();
    if more > 0 {
        let file = &diagnostics.errors[0].span.file;
        console.complain(format!("{} in {}", counted(more, "more error"), printable(file)));
    }
}

/// Maximum number of errors printed for one input; the rest are counted.
const PRINTED: usize = 50;

/// Maximum length in bytes of a line printed with an error.
const LINE_BYTES: usize = 400;

/// Returns whether the lines around an error may be printed. Files that are not svclab input are not quoted: they may contain secrets, and
/// an untrusted scenario may have named them.
fn can_be_shown(error: &Diagnostic, text: &str) -> bool {
    if !is_input(text) {
        return false;
    }
    let also = error.also.iter().map(|also| &also.span).filter(|span| span.file == error.span.file);
    std::iter::once(&error.span).chain(also).all(|span| {
        let around = text.lines().skip(span.line.saturating_sub(2)).take(3);
        around
            .into_iter()
            .all(|line| line.len() <= LINE_BYTES && !line.contains(|letter| is_interpreted(letter) && letter != '\t'))
    })
}

/// An error in miette's form.
#[derive(Debug)]
struct Error<'d> {
    group: &'d Group<'d>,
    source: NamedSource<Arc<str>>,
    labels: Vec<LabeledSpan>,
}

impl<'d> Error<'d> {
    fn new(group: &'d Group<'d>, text: &Arc<str>) -> Self {
        let error = group.first;
        let mut labels = vec![LabeledSpan::new_primary_with_span(None, range(&error.span, error.length, text))];
        if let Some(also) = error.also.as_ref().filter(|also| also.span.file == error.span.file) {
            labels.push(LabeledSpan::new_with_span(
                Some(one_line(&also.text).into_owned()),
                range(&also.span, also.length, text),
            ));
        }
        let source = NamedSource::new(printable(&error.span.file).to_string(), text.clone());
        Self { group, source, labels }
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.group.first.message))?;
        self.group.elsewhere().map_or(Ok(()), |elsewhere| write!(f, "\n{elsewhere}"))
    }
}

impl std::error::Error for Error<'_> {}

impl miette::Diagnostic for Error<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let error = self.group.first;
        let elsewhere = error.also.as_ref().filter(|also| also.span.file != error.span.file);
        let elsewhere = elsewhere.map(|also| format!("{}: {}", also.span, one_line(&also.text)));
        let help = error.help.as_deref().map(|help| one_line(help).into_owned());
        let lines: Vec<String> = elsewhere.into_iter().chain(help).collect();
        (!lines.is_empty()).then(|| Box::new(lines.join("\n")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }
}

/// Returns the byte offset and length of a place.
fn range(span: &Span, length: usize, text: &str) -> (usize, usize) {
    let start = match span.line {
        0 | 1 => 0,
        line => text.match_indices('\n').nth(line - 2).map_or(text.len(), |(at, _)| at + 1),
    };
    let line = text[start..].lines().next().unwrap_or_default();
    let bytes = |characters: usize| line.char_indices().nth(characters).map_or(line.len(), |(at, _)| at);
    let first = bytes(span.column.saturating_sub(1));
    let last = bytes(span.column.saturating_sub(1) + length);
    (start + first, last.saturating_sub(first))
}

struct Shown<'h, 'd> {
    handler: &'h MietteHandler,
    error: Error<'d>,
}

impl fmt::Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handler.debug(&self.error, f)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use svclab::input::Label;

    /// A place in another file is printed with and without a help text.
    #[rstest]
    #[case::with_help(Some("Rename one."), "b.yaml:3:1: the other\nRename one.")]
    #[case::without_help(None, "b.yaml:3:1: the other")]
    fn a_place_in_another_file_is_printed(#[case] help: Option<&str>, #[case] expected: &str) {
        let span = |file: &str, line| Span { file: file.into(), line, column: 1 };
        let also = Label { span: span("b.yaml", 3), length: 1, text: "the other".to_owned() };
        let message = "there are two".to_owned();
        let error =
            Diagnostic { span: span("a.yaml", 1), length: 1, message, help: help.map(str::to_owned), also: Some(also) };
        let group = Group { first: &error, others: Vec::new() };
        let printed = miette::Diagnostic::help(&Error::new(&group, &"name: x".into())).map(|help| help.to_string());
        assert_eq!(printed.as_deref(), Some(expected));
    }

    #[rstest]
    #[case::first_line((1, 1), 2, "ab")]
    #[case::later_line((2, 3), 1, "é")]
    #[case::after_wide_letters((2, 4), 2, "cd")]
    #[case::beyond_the_line((1, 9), 3, "")]
    #[case::beyond_the_text((9, 1), 3, "")]
    #[case::long((3, 1), 99, "ef")]
    fn ranges_are_bytes(#[case] (line, column): (usize, usize), #[case] length: usize, #[case] expected: &str) {
        let text = "abc\r\nxxécd\nef";
        let span = Span { file: "f".into(), line, column };
        let (start, length) = range(&span, length, text);
        assert_eq!(&text[start..start + length], expected);
    }
}
