//! The words of a line, and errors in them.

use std::borrow::Cow;

/// An error at a place in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::iptables) struct Fault {
    /// The byte, from 0.
    pub(in crate::iptables) column: usize,
    pub(in crate::iptables) message: String,
}

impl Fault {
    pub(in crate::iptables) fn new(column: usize, message: impl Into<String>) -> Self {
        Self { column, message: message.into() }
    }
}

/// A word of a line.
#[derive(Debug, Clone)]
pub(in crate::iptables) struct Word<'a> {
    /// Its text without quotes.
    pub(in crate::iptables) text: Cow<'a, str>,
    /// Its text in the line.
    pub(in crate::iptables) raw: &'a str,
    pub(in crate::iptables) column: usize,
}

impl Word<'_> {
    /// Returns whether it can be an option's name or a `!`: those are never quoted.
    pub(in crate::iptables) fn is_syntax(&self) -> bool {
        let option = self.raw.starts_with('-') && self.raw[1..].starts_with(|c: char| c == '-' || c.is_alphabetic());
        option || self.raw == "!"
    }
}

/// Splits a line at blanks, outside of quotes.
pub(in crate::iptables) fn split<'a>(line: &'a str, start: usize, words: &mut Vec<Word<'a>>) -> Result<(), Fault> {
    let bytes = line.as_bytes();
    let mut at = start;
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let Some(first) = bytes.get(at) else { return Ok(()) };
        let from = at;
        if matches!(first, b'"' | b'\'') {
            let (end, escaped) = closing_quote(bytes, at).ok_or_else(|| Fault::new(from, "unterminated quote"))?;
            let inner = &line[from + 1..end];
            let text = if escaped { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) };
            words.push(Word { text, raw: &line[from..=end], column: from });
            at = end + 1;
        } else {
            while bytes.get(at).is_some_and(|byte| !byte.is_ascii_whitespace()) {
                at += 1;
            }
            let raw = &line[from..at];
            words.push(Word { text: Cow::Borrowed(raw), raw, column: from });
        }
    }
}

/// Returns the position of the closing quote, and whether there is a backslash before it.
fn closing_quote(bytes: &[u8], open: usize) -> Option<(usize, bool)> {
    let mut at = open + 1;
    let mut escaped = false;
    loop {
        match bytes.get(at)? {
            b'\\' => {
                escaped = true;
                at += 2;
            }
            byte if *byte == bytes[open] => return Some((at, escaped)),
            _ => at += 1,
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    out
}
