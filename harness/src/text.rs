//! Text of others in svclab's messages.

use std::borrow::Cow;
use std::fmt::Display;

use crate::stats::grouped;

/// A number of things: `1 test`, `1,200 tests`.
pub(crate) fn counted<N: Number>(number: N, thing: &str) -> String {
    let number = number.wide();
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A number of things, of either width.
pub(crate) trait Number {
    /// The same as the wider one.
    fn wide(self) -> u64;
}

impl Number for u64 {
    fn wide(self) -> u64 {
        self
    }
}

impl Number for usize {
    fn wide(self) -> u64 {
        self as u64
    }
}

/// The longest line that a rule may take on a page.
const LONGEST: usize = 240;

/// A rule in a line that can be taken in: of one with hundreds of elements the start.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{} ...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// What the system says of an error, as a fragment: without its number, and in lower case.
pub(crate) fn reason(error: impl Display) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A text in one line: what a terminal would obey is written as YAML writes it, `\x1b`, and line ends are, too.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, |letter, _| is_obeyed(letter))
}

/// A text with its lines, in which nothing but line ends and tabs is obeyed by a terminal; with `colours`, also the escape
/// sequences of colours.
pub(crate) fn visible(text: &str, colours: bool) -> Cow<'_, str> {
    escape(text, |letter, rest| match letter {
        '\n' | '\t' => false,
        '\x1b' if colours => !is_colour(rest),
        _ => is_obeyed(letter),
    })
}

/// Control characters, those that let letters appear in another order than they stand in, and the numbers that will
/// never be letters, which XML cannot hold.
pub(crate) fn is_obeyed(letter: char) -> bool {
    let never = u32::from(letter) & 0xfffe == 0xfffe || matches!(letter, '\u{fdd0}'..='\u{fdef}');
    letter.is_control() || never || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether an escape sequence goes on like that of a colour: `[`, numbers, `m`.
fn is_colour(rest: &str) -> bool {
    let numbers =
        rest.strip_prefix('[').map(|rest| rest.trim_start_matches(|letter| matches!(letter, '0'..='9' | ';')));
    numbers.is_some_and(|rest| rest.starts_with('m'))
}

/// Escapes the characters that are chosen, each seen with what follows it.
fn escape(text: &str, chosen: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
    let is_chosen = |(at, letter): (usize, char)| chosen(letter, &text[at + letter.len_utf8()..]);
    if !text.char_indices().any(is_chosen) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if !is_chosen((at, letter)) => escaped.push(letter),
            '\n' => escaped += "\\n",
            '\r' => escaped += "\\r",
            '\t' => escaped += "\\t",
            '\0'..='\u{ff}' => escaped += &format!("\\x{:02x}", u32::from(letter)),
            _ => escaped += &format!("\\u{:04x}", u32::from(letter)),
        }
    }
    Cow::Owned(escaped)
}

/// The network between nodes, as places are named.
pub(crate) const UNDERLAY: &str = "underlay";

/// Whether a place is in the cluster: a node, or a pod with rules of its own. What got to the underlay, or to a machine
/// behind it, has left the cluster.
pub(crate) fn is_in_cluster(place: &str) -> bool {
    place != UNDERLAY && !place.starts_with("host/")
}

/// How it is said that a packet was dropped at a place.
pub(crate) fn drop_words(at: &str) -> String {
    if is_in_cluster(at) { format!("dropped on {at}") } else { "lost on the underlay".to_owned() }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(0, "0 tests")]
    #[case::one(1, "1 test")]
    #[case::many(1_200, "1,200 tests")]
    fn things_are_counted(#[case] number: u64, #[case] expected: &str) {
        assert_eq!(counted(number, "test"), expected);
    }

    #[rstest]
    #[case::number("No such file or directory (os error 2)", "no such file or directory")]
    #[case::none("longer than 64 MiB", "longer than 64 MiB")]
    #[case::empty("", "")]
    fn a_reason_is_a_fragment(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(reason(text), expected);
    }

    #[rstest]
    #[case::plain("naïve → ok", "naïve → ok")]
    #[case::lines("a\r\n\tb", "a\\r\\n\\tb")]
    #[case::escape("\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07")]
    #[case::c1("\u{9b}2J", "\\x9b2J")]
    #[case::noncharacter("a\u{fffe}b", "a\\ufffeb")]
    #[case::reordered("a\u{202e}b", "a\\u202eb")]
    fn one_line_obeys_nothing(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(one_line(text), expected);
    }

    #[rstest]
    #[case::lines_stay("a\n\tb", true, "a\n\tb")]
    #[case::carriage_return("ok\rFAIL", true, "ok\\rFAIL")]
    #[case::colour("\x1b[1;31mred\x1b[0m", true, "\x1b[1;31mred\x1b[0m")]
    #[case::no_colours("\x1b[31mred", false, "\\x1b[31mred")]
    #[case::cursor("\x1b[2A", true, "\\x1b[2A")]
    #[case::title("\x1b]0;x\x07", true, "\\x1b]0;x\\x07")]
    #[case::cut("\x1b", true, "\\x1b")]
    fn visible_text_is_obeyed_in_colours_only(#[case] text: &str, #[case] colours: bool, #[case] expected: &str) {
        assert_eq!(visible(text, colours), expected);
    }
}
