//! Text in svclab's messages: escaping, counting, paths.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number with its thousands grouped: `41,200`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 test`, `1,200 tests`, `2 entries`, `3 addresses`.
pub fn counted<N: Number>(number: N, thing: &str) -> String {
    let number = number.wide();
    if number == 1 {
        return format!("1 {thing}");
    }
    let before_y = thing.strip_suffix('y').filter(|rest| !rest.ends_with(['a', 'e', 'o', 'u']));
    let plural = match before_y {
        Some(rest) => format!("{rest}ies"),
        None if ["s", "x", "ch", "sh"].iter().any(|end| thing.ends_with(end)) => format!("{thing}es"),
        None => format!("{thing}s"),
    };
    format!("{} {plural}", grouped(number))
}

/// A number of things, of either width.
pub trait Number {
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

/// The longest rule that is printed whole, in characters.
const LONGEST: usize = 240;

/// A duration for a person: `< 1 ms`, `84 ms`, `1.31 s`, `2 min 03 s`.
pub fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "< 1 ms".to_owned(),
        1..1_000 => format!("{millis} ms"),
        // Rounded like the text, so that it is never 60.00 s.
        1_000..59_995 => format!("{:.2} s", duration.as_secs_f64()),
        _ => {
            let seconds = duration.as_secs_f64().round() as u64;
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// The start of a long rule.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{} ...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The system's message for an error, as a fragment: without its number, and in lower case.
pub fn reason(error: impl Display) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = one_line(text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A text in one line: control characters and line ends are escaped as in YAML, `\x1b`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, |letter, _| is_obeyed(letter))
}

/// A path in messages, in one line: nothing in it is obeyed, and a byte that is not UTF-8 is written as `\xff`.
///
/// All paths are printed through this: `Path::display` prints line ends and escape sequences as they are.
pub fn printable(path: &Path) -> Printable<'_> {
    Printable(path)
}

/// See [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'p>(&'p Path);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_path(self.0, f, one_line)
    }
}

/// A text as one word of a shell's command line.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:=@+-".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A path in documents with their own escapes, such as JSON: unchanged but for bytes that are not UTF-8, which are written as
/// `\xff`.
pub fn path_text(path: &Path) -> String {
    struct Plain<'p>(&'p Path);
    impl Display for Plain<'_> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            write_path(self.0, f, |text| Cow::Borrowed(text))
        }
    }
    Plain(path).to_string()
}

/// Serializes a path: for people as [`path_text`], because serde fails on paths that are not UTF-8; else unchanged.
pub(crate) fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.serialize_str(&path_text(path))
    } else {
        path.as_os_str().serialize(serializer)
    }
}

/// Reads what [`serialize_path`] wrote.
pub(crate) fn deserialize_path<'d, D: Deserializer<'d>>(deserializer: D) -> Result<PathBuf, D::Error> {
    if deserializer.is_human_readable() {
        PathBuf::deserialize(deserializer)
    } else {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

fn write_path(path: &Path, f: &mut Formatter<'_>, written: fn(&str) -> Cow<'_, str>) -> fmt::Result {
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        f.write_str(&written(chunk.valid()))?;
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    Ok(())
}

/// A text that neither a terminal nor GitHub Actions obeys; with `colours`, a terminal obeys those that svclab itself uses.
pub fn harmless(text: &str, colours: bool) -> String {
    without_commands(&visible(text, colours)).into_owned()
}

/// A text with its lines, in which nothing but line ends and tabs is obeyed by a terminal; with `colours`, also the colours that
/// svclab itself uses.
pub fn visible(text: &str, colours: bool) -> Cow<'_, str> {
    escape(text, |letter, rest| match letter {
        '\n' | '\t' => false,
        '\x1b' if colours => !is_colour(rest),
        _ => is_obeyed(letter),
    })
}

/// A text in which GitHub Actions finds no workflow command: `::error ::...` at the start of a line, `##[error]...` anywhere in it
/// (`ActionCommand.TryParseV2` and `TryParse` of actions/runner). The first sign of each is escaped.
fn without_commands(text: &str) -> Cow<'_, str> {
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

/// Whether a line starts as a workflow command does. What an IPv6 address may start with, `::ffff`, does not: no command has such a name.
fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("::").filter(|rest| rest.contains("::")) else { return false };
    let name = rest.find(|letter: char| !letter.is_ascii_alphabetic() && !"-_".contains(letter)).unwrap_or(rest.len());
    let is_group = name <= 4 && rest[..name].bytes().all(|byte| byte.is_ascii_hexdigit());
    !is_group
}

/// A text within XML, SVG or HTML, in one line: nothing in it is markup, and nothing is obeyed.
pub(crate) fn markup(text: &str) -> String {
    one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A value as an indented JSON document with a line end, in which nothing is obeyed by a terminal or by GitHub Actions: such
/// characters are escaped as JSON does.
///
/// # Errors
///
/// Those of the value's own serialization.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| json_escaped(text) + "\n")
}

/// JSON text with what is obeyed escaped: in strings, for outside of them there are line ends alone.
pub(crate) fn json_escaped(text: String) -> String {
    let is_chosen = |at: usize, letter: char| {
        (is_obeyed(letter) && letter != '\n') || (letter == '#' && text[at..].starts_with("##["))
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

/// Control characters, those that let letters appear in another order than they stand in or end a line, and the numbers that will
/// never be letters, which XML cannot hold.
pub fn is_obeyed(letter: char) -> bool {
    let never = u32::from(letter) & 0xfffe == 0xfffe || matches!(letter, '\u{fdd0}'..='\u{fdef}');
    letter.is_control() || never || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether an escape sequence goes on like that of one of svclab's own colours: `[`, numbers, `m`. Text can be faint or green, but
/// neither hidden nor in the background's colour.
fn is_colour(rest: &str) -> bool {
    let Some((numbers, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once('m')) else { return false };
    let is_own = |number: &str| matches!(number, "" | "0" | "1" | "2" | "3" | "4" | "39") || is_foreground(number);
    numbers.len() <= 16 && numbers.split(';').all(is_own)
}

/// The numbers of letters' colours but black.
fn is_foreground(number: &str) -> bool {
    number.parse().is_ok_and(|number: u8| matches!(number, 31..=37 | 90..=97))
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

/// Whether a place is in the cluster: a node, or a pod with its own rules. A packet on the underlay, or at a machine
/// behind it, has left the cluster.
pub(crate) fn is_in_cluster(place: &str) -> bool {
    place != UNDERLAY && !place.starts_with("host/")
}

/// The words for a drop at a place.
pub(crate) fn drop_words(at: &str) -> String {
    if is_in_cluster(at) { format!("dropped on {at}") } else { "lost on the underlay".to_owned() }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1, "entry", "1 entry")]
    #[case(2, "entry", "2 entries")]
    #[case(2, "day", "2 days")]
    #[case(0, "address", "0 addresses")]
    #[case(1_200, "test", "1,200 tests")]
    fn plurals_are_regular(#[case] number: u64, #[case] thing: &str, #[case] text: &str) {
        assert_eq!(counted(number, thing), text);
    }

    #[rstest]
    #[case(7, "7")]
    #[case(999, "999")]
    #[case(1_000, "1,000")]
    #[case(41_200, "41,200")]
    #[case(1_234_567, "1,234,567")]
    fn groups(#[case] number: u64, #[case] text: &str) {
        assert_eq!(grouped(number), text);
    }

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
    #[case::line_separator("a\u{2028}b", "a\\u2028b")]
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
    #[case::hidden("\x1b[8mx", true, "\\x1b[8mx")]
    #[case::black_on_black("\x1b[30;40mx", true, "\\x1b[30;40mx")]
    fn visible_text_is_obeyed_in_colours_only(#[case] text: &str, #[case] colours: bool, #[case] expected: &str) {
        assert_eq!(visible(text, colours), expected);
    }

    #[rstest]
    #[case::error("::error title=x::y", "\\x3a:error title=x::y")]
    #[case::later_line("a\n \t::add-mask::y\n", "a\n \t\\x3a:add-mask::y\n")]
    #[case::older_form("x ##[error]y", "x \\x23#[error]y")]
    #[case::within_a_line("a ::error::b", "a ::error::b")]
    #[case::address("\t\t::ffff . tcp . 80 : goto a::b", "\t\t::ffff . tcp . 80 : goto a::b")]
    #[case::loopback("::1 . tcp . 80 comment \"a::b\"", "::1 . tcp . 80 comment \"a::b\"")]
    fn github_finds_no_command(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(without_commands(text), expected);
    }

    #[rstest]
    #[case::plain(b"a/b.yaml", "a/b.yaml", "a/b.yaml")]
    #[case::line_end(b"a\n::error::x.yaml", "a\\n::error::x.yaml", "a\n::error::x.yaml")]
    #[case::latin_1(b"caf\xe9.yaml", "caf\\xe9.yaml", "caf\\xe9.yaml")]
    #[case::cut(b"\xe2\x82", "\\xe2\\x82", "\\xe2\\x82")]
    fn paths_of_any_bytes_are_written(#[case] bytes: &[u8], #[case] in_words: &str, #[case] in_json: &str) {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
        assert_eq!((printable(path).to_string().as_str(), path_text(path).as_str()), (in_words, in_json));
    }

    #[test]
    fn json_obeys_nothing_and_means_the_same() {
        let text = "a\x1b\u{9b}\u{202e}\u{1fffe}\x7f\n##[error]b";
        let written = json(&[text]).expect("a list");
        assert!(!written.replace('\n', "").contains(is_obeyed) && !written.contains("##["), "{written:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&written).expect("JSON"), [text]);
    }

    /// A path that is printed otherwise brings the line ends and escape sequences of its name along.
    #[test]
    fn every_path_is_written_printable() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let (mut read, mut wrong) = (0, Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a source file");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                read += 1;
                wrong.extend(code.contains(concat!(".disp", "lay()")).then_some(path));
            }
        }
        assert!(read > 200, "sources are found: {read}");
        assert_eq!(wrong, Vec::<PathBuf>::new());
    }
}
