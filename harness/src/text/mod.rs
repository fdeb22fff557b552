//! Text in svclab's messages: escaping, counting, paths.

mod escape;
mod list;
mod number;
mod path;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

pub use self::escape::{harmless, is_interpreted, one_line, visible, without_commands};
pub(crate) use self::escape::{json_escaped, markup};
pub use self::list::list;
pub use self::number::within;
pub use self::path::{Printable, path_text, printable};
pub(crate) use self::path::{deserialize_path, serialize_path};

/// Where something is documented, if that is a URL: files of svclab's repository are not installed with it.
pub(crate) fn link(document: &str) -> Option<&str> {
    Some(document).filter(|document| document.starts_with("https://"))
}

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

/// A counted noun: `1 test`, `1,200 tests`, `2 entries`, `3 addresses`.
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

/// A number of any integer width.
pub trait Number {
    /// The number as a `u64`.
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

/// The maximum length of rules that are printed unabridged, in characters.
const LONGEST: usize = 240;

/// A human-readable duration: `< 1 ms`, `84 ms`, `1.31 s`, `2 min 03 s`.
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

/// Abridges a long text, such as a rule with many comments.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{} ...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The system's message for an error, as a lower-case fragment without its number.
pub fn reason(error: impl Display) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = one_line(text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Quotes a text as one word of a shell command.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:=@+-".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Serializes a value as an indented JSON document with a final newline. Characters that a terminal or GitHub Actions would interpret are
/// escaped.
///
/// # Errors
///
/// Those of the value's own serialization.
pub fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value).map(|text| json_escaped(text) + "\n")
}

/// The name of the network between nodes, as a place.
pub(crate) const UNDERLAY: &str = "underlay";

/// Whether a place is in the cluster: a node, or a pod with its own rules. A packet on the underlay, or at a machine
/// behind it, has left the cluster.
pub(crate) fn is_in_cluster(place: &str) -> bool {
    place != UNDERLAY && !place.starts_with("host/")
}

/// A drop at a place, in words.
pub(crate) fn drop_words(at: &str) -> String {
    if is_in_cluster(at) { format!("dropped on {at}") } else { "lost on the underlay".to_owned() }
}
