//! A cursor over the words of a rule.

use super::words::{Kind, Word};

/// The words of a rule, and the position of the next one.
pub(in crate::nftables) struct Line<'w, 'a> {
    words: &'w [Word<'a>],
    at: usize,
}

impl<'w, 'a> Line<'w, 'a> {
    pub(in crate::nftables) fn of(words: &'w [Word<'a>]) -> Self {
        Self { words, at: 0 }
    }

    /// Returns the number of words taken.
    pub(in crate::nftables) fn taken(&self) -> usize {
        self.at
    }

    /// Returns whether there are no more words. False if more were taken than there are.
    pub(in crate::nftables) fn is_done(&self) -> bool {
        self.at == self.words.len()
    }

    /// Returns the next word without taking it.
    pub(in crate::nftables) fn word(&self) -> Option<Word<'a>> {
        self.words.get(self.at).copied()
    }

    /// Returns the text of the next word without taking it, unless it is quoted; empty at the end.
    pub(in crate::nftables) fn peek(&self) -> &'a str {
        self.word().filter(|word| word.kind != Kind::Quoted).map_or("", |word| word.text)
    }

    /// Takes the next word, and returns it unless it is quoted; empty at the end.
    pub(in crate::nftables) fn next(&mut self) -> &'a str {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// Takes the next word if it is this one.
    pub(in crate::nftables) fn take(&mut self, text: &str) -> bool {
        let is = self.peek() == text;
        self.at += usize::from(is);
        is
    }

    /// Takes this many words; returns `None` if there are fewer.
    pub(in crate::nftables) fn skip(&mut self, words: usize) -> Option<()> {
        self.at += words;
        (self.at <= self.words.len()).then_some(())
    }

    /// Takes `!=` or `==`.
    pub(in crate::nftables) fn negation(&mut self) -> bool {
        let negated = self.take("!=");
        self.take("==");
        negated
    }

    /// Takes the words that `read` reads; takes no word if it returns nothing.
    pub(in crate::nftables) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let found = read(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }

    /// `a`, `a,b`, `{ a, b }`: the values of a comparison.
    pub(in crate::nftables) fn several<T>(&mut self, read: impl Fn(&Word<'a>) -> Option<T>) -> Option<Vec<T>> {
        let braces = self.take("{");
        let mut values = Vec::new();
        loop {
            values.push(self.words.get(self.at).and_then(&read)?);
            self.at += 1;
            if !self.take(",") {
                break;
            }
        }
        let is_whole = if braces { self.take("}") } else { self.peek() != "|" };
        is_whole.then_some(values)
    }
}

/// `16384` or `0x00004000`.
pub(in crate::nftables) fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
