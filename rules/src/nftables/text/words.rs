//! Tokenizer of nft's text.

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nftables) enum Kind {
    /// A name, a number, an address, an operator.
    Plain,
    /// A quoted string.
    Quoted,
    /// `{`, `}`, `,` or `;`.
    Sign,
    /// The end of a line.
    Newline,
}

/// A word of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nftables) struct Word<'a> {
    pub(in crate::nftables) kind: Kind,
    /// Its text, without quotes.
    pub(in crate::nftables) text: &'a str,
    /// The byte offsets of its start and end.
    pub(in crate::nftables) start: usize,
    pub(in crate::nftables) end: usize,
    /// The line, from 1.
    pub(in crate::nftables) line: usize,
}

impl Word<'_> {
    /// Returns whether it is this name or sign.
    pub(in crate::nftables) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Sign) && self.text == text
    }

    /// Returns whether it ends a statement of a block.
    pub(in crate::nftables) fn is_end(&self) -> bool {
        self.kind == Kind::Newline || self.is(";")
    }
}

/// An iterator over the words of a text. Comments (`# handle 7`) are skipped; the last word is always a newline.
#[derive(Debug, Clone)]
pub(in crate::nftables) struct Words<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    ahead: Option<Word<'a>>,
}

impl<'a> Words<'a> {
    pub(in crate::nftables) fn of(text: &'a str) -> Self {
        Self { text, at: 0, line: 1, ahead: None }
    }

    /// Returns the whole text.
    pub(in crate::nftables) fn source(&self) -> &'a str {
        self.text
    }

    /// Returns the next word without taking it.
    pub(in crate::nftables) fn peek(&mut self) -> Option<Word<'a>> {
        if self.ahead.is_none() {
            self.ahead = self.read();
        }
        self.ahead
    }

    /// Takes the next word.
    pub(in crate::nftables) fn next(&mut self) -> Option<Word<'a>> {
        self.ahead.take().or_else(|| self.read())
    }

    /// Takes the next word if it is this name or sign.
    pub(in crate::nftables) fn take(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|word| word.is(text));
        if is {
            self.ahead = None;
        }
        is
    }

    /// Returns all words up to the end.
    pub(in crate::nftables) fn all(mut self) -> impl Iterator<Item = Word<'a>> {
        std::iter::from_fn(move || self.next())
    }

    /// Skips newlines.
    pub(in crate::nftables) fn skip_newlines(&mut self) {
        while self.peek().is_some_and(|word| word.kind == Kind::Newline) {
            self.ahead = None;
        }
    }

    fn read(&mut self) -> Option<Word<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            if let Some(length) = continuation(rest) {
                self.at += length;
                self.line += 1;
            } else if rest.first().is_some_and(|byte| byte.is_ascii_whitespace() && *byte != b'\n') {
                self.at += 1;
            } else {
                break;
            }
        }
        if bytes.get(self.at) == Some(&b'#') {
            self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
        }
        let (start, line) = (self.at, self.line);
        let word = |kind, end| Some(Word { kind, text: &self.text[start..end], start, end, line });
        let word = match bytes.get(start)? {
            b'\n' => {
                self.line += 1;
                word(Kind::Newline, start + 1)
            }
            b'{' | b'}' | b',' | b';' => word(Kind::Sign, start + 1),
            b'"' => {
                // nft writes no quotes inside of quotes, and an unterminated quote ends at the end of the line.
                let rest = &self.text[start + 1..];
                let inner = rest.find(['"', '\n']).unwrap_or(rest.len());
                let closed = usize::from(rest[inner..].starts_with('"'));
                Some(Word { kind: Kind::Quoted, text: &rest[..inner], start, end: start + 1 + inner + closed, line })
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b',' | b';' | b'"');
                let length = bytes[start..].iter().position(ends).unwrap_or(bytes.len() - start);
                // A continuation may follow a word without a blank.
                let is_continued = continuation(&bytes[start + length - 1..]).is_some();
                let length = length - usize::from(is_continued);
                word(Kind::Plain, start + length)
            }
        };
        self.at = word.map_or(self.at, |word| word.end);
        word
    }
}

/// Returns the length of a line continuation: a backslash and the newline.
fn continuation(text: &[u8]) -> Option<usize> {
    ["\\\n", "\\\r\n"].into_iter().find(|end| text.starts_with(end.as_bytes())).map(str::len)
}
