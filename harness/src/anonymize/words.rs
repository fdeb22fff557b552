//! Replacement of words.

use std::collections::{HashMap, HashSet};

use super::key::Key;
use super::token::is_ideograph;
use super::vocabulary::{is_known, is_ordinary_word};

/// Replacements by word, in lower case.
pub(super) struct Words {
    key: Key,
    new: HashMap<String, String>,
    /// Words that must not be used as replacements: words of the input, and earlier replacements.
    taken: HashSet<String>,
}

/// What a letter of a word is replaced with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digit,
    Ideograph,
    Letter,
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            '0'..='9' => Self::Digit,
            _ if is_ideograph(letter) => Self::Ideograph,
            _ => Self::Letter,
        }
    }

    fn letter(self, byte: u8) -> char {
        match self {
            Self::Digit => char::from(b'0' + byte % 10),
            // The first of CJK's unified ideographs.
            Self::Ideograph => char::from_u32(0x4e00 + u32::from(byte)).unwrap_or('\u{4e00}'),
            Self::Letter => char::from(b'a' + byte % 26),
        }
    }
}

/// Maximum number of candidates tried per length.
const ATTEMPTS: u32 = 64;

impl Words {
    /// Creates replacements for an input, whose words are not used as replacements.
    pub(super) fn new(key: Key, taken: HashSet<String>) -> Self {
        Self { key, new: HashMap::new(), taken }
    }

    /// Returns the replacement for a word: of the same length, with letters and capitals in the same positions.
    pub(super) fn replace(&mut self, word: &str) -> String {
        let lower = word.to_lowercase();
        if !self.new.contains_key(&lower) {
            let made = self.make(&lower);
            self.taken.insert(made.clone());
            self.new.insert(lower.clone(), made);
        }
        let made = self.new[&lower].as_str();
        let mut original = word.chars();
        let cased = made.chars().map(|letter| match original.next() {
            Some(own) if own.is_uppercase() => letter.to_ascii_uppercase(),
            _ => letter,
        });
        cased.collect()
    }

    fn make(&self, lower: &str) -> String {
        let kinds: Vec<Kind> = lower.chars().map(Kind::of).collect();
        // Each letter depends only on this digest of the word, so that a long word takes no longer than many short ones.
        let digest = self.key.bytes("word", lower.as_bytes());
        for attempt in 0.. {
            // If all short words are taken, longer ones are used.
            let length = kinds.len() + (attempt / ATTEMPTS) as usize;
            let mut made = String::with_capacity(length);
            let mut bytes = [0; 32];
            for at in 0..length {
                if at % bytes.len() == 0 {
                    let input = [&digest[..], format!("{attempt}/{at}").as_bytes()].concat();
                    bytes = self.key.bytes("letters", &input);
                }
                let byte = bytes[at % bytes.len()];
                made.push(kinds.get(at).unwrap_or(&Kind::Letter).letter(byte));
            }
            let is_number = kinds.iter().all(|kind| *kind == Kind::Digit);
            if !self.taken.contains(&made) && (is_number || !is_known(&made)) && !is_ordinary_word(&made) {
                return made;
            }
        }
        lower.to_owned()
    }

    pub(super) fn count(&self) -> usize {
        self.new.len()
    }

    /// Returns the replaced words.
    pub(super) fn replaced(&self) -> impl Iterator<Item = &str> {
        self.new.keys().map(String::as_str)
    }
}
