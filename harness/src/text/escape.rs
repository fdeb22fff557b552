//! Escapes text that other programs interpret: control characters, colours, GitHub workflow commands.

use std::borrow::Cow;

/// Escapes a text to one line: control characters and line ends are written as in YAML, `\x1b`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, |letter, _| is_interpreted(letter))
}

/// Escapes what a terminal or GitHub Actions would interpret; with `colours`, svclab's own colours are kept.
pub fn harmless(text: &str, colours: bool) -> String {
    without_commands(&visible(text, colours)).into_owned()
}

/// Escapes what a terminal would interpret, except line ends and tabs; with `colours`, svclab's own colours are kept too.
pub fn visible(text: &str, colours: bool) -> Cow<'_, str> {
    escape(text, |letter, rest| match letter {
        '\n' | '\t' => false,
        '\x1b' if colours => !is_colour(rest),
        _ => is_interpreted(letter),
    })
}

/// Escapes GitHub Actions workflow commands: `::error ::...` at the start of a line, `##[error]...` anywhere in it
/// (`ActionCommand.TryParseV2` and `TryParse` of actions/runner). The first character of each is escaped.
pub fn without_commands(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##[") {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let start = line.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
        let indent = &line[..line.len() - start.len()];
        let line = if is_command(start) { format!("{indent}\\x3a{}", &start[1..]) } else { line.to_owned() };
        line.replace("##[", "\\x23#[")
    };
    Cow::Owned(text.split_inclusive('\n').map(line).collect())
}

/// Whether a line starts as a workflow command does. The start of an IPv6 address such as `::ffff` does not count: no command has such a
/// name.
fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("::").filter(|rest| rest.contains("::")) else { return false };
    let name = rest.find(|letter: char| !letter.is_ascii_alphabetic() && !"-_".contains(letter)).unwrap_or(rest.len());
    let is_group = name <= 4 && rest[..name].bytes().all(|byte| byte.is_ascii_hexdigit());
    !is_group
}

/// Escapes a text for XML, SVG or HTML, in one line, without markup and control characters.
pub(crate) fn markup(text: &str) -> String {
    one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes interpreted characters in JSON text. They occur only in strings; outside of strings there are only line ends.
pub(crate) fn json_escaped(text: String) -> String {
    let is_chosen = |at: usize, letter: char| {
        (is_interpreted(letter) && letter != '\n') || (letter == '#' && text[at..].starts_with("##["))
    };
    if !text.char_indices().any(|(at, letter)| is_chosen(at, letter)) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for (at, letter) in text.char_indices() {
        if is_chosen(at, letter) {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}"));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Whether it is a control character, a line separator, a character that changes the order of others (`Bidi_Control`) or is invisible (a format
/// character, `Cf`, that is `Default_Ignorable_Code_Point`), or a noncharacter, which XML does not allow.
pub fn is_interpreted(letter: char) -> bool {
    let never = u32::from(letter) & 0xfffe == 0xfffe || matches!(letter, '\u{fdd0}'..='\u{fdef}');
    letter.is_control() || never || (letter > '\u{7f}' && is_invisible(letter))
}

/// Whether it is a line separator, or a character without a form of its own that controls others.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Whether an escape sequence continues like one of svclab's own colours: `[`, numbers, `m`. Text may be faint or green, but neither hidden
/// nor in the background colour.
fn is_colour(rest: &str) -> bool {
    let Some((numbers, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once('m')) else { return false };
    let is_own = |number: &str| matches!(number, "" | "0" | "1" | "2" | "3" | "4" | "39") || is_foreground(number);
    numbers.len() <= 16 && numbers.split(';').all(is_own)
}

/// The codes of foreground colours except black.
fn is_foreground(number: &str) -> bool {
    number.parse().is_ok_and(|number: u8| matches!(number, 31..=37 | 90..=97))
}

/// Escapes the characters that a function selects, given each character with the text that follows it.
pub(super) fn escape(text: &str, chosen: impl Fn(char, &str) -> bool) -> Cow<'_, str> {
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
            '\0'..='\u{ffff}' => escaped += &format!("\\u{:04x}", u32::from(letter)),
            _ => escaped += &format!("\\U{:08x}", u32::from(letter)),
        }
    }
    Cow::Owned(escaped)
}
