//! The options of one match or target.

use super::words::{Fault, Word};
use crate::cluster::Family;
use crate::iptables::Negatable;

/// Whose an option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The match at this position.
    Match(usize),
    /// The target.
    Target,
}

/// An option in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) owner: Owner,
    pub(super) negated: bool,
    /// The position of its name among the words; arguments follow.
    pub(super) name: usize,
    /// The position behind its last argument.
    pub(super) end: usize,
}

/// The options of an owner.
pub(super) struct Options<'a> {
    pub(super) words: &'a [Word<'a>],
    pub(super) given: &'a [Given],
    pub(super) family: Family,
}

/// One option: its name and arguments.
pub(super) struct Opt<'a> {
    pub(super) name: &'a str,
    pub(super) negated: bool,
    pub(super) column: usize,
    arguments: &'a [Word<'a>],
}

impl<'a> Opt<'a> {
    /// The only argument.
    pub(super) fn value(&self) -> Result<&'a str, Fault> {
        match self.arguments {
            [word] => Ok(&word.text),
            [] => Err(Fault::new(self.column, format!("`{}` needs a value", self.name))),
            [_, more, ..] => Err(Fault::new(more.column, "an option must stand here")),
        }
    }

    /// The two arguments.
    pub(super) fn pair(&self) -> Result<(&'a str, &'a str), Fault> {
        match self.arguments {
            [first, second] => Ok((&first.text, &second.text)),
            _ => Err(Fault::new(self.column, format!("`{}` needs two values", self.name))),
        }
    }

    /// The only argument, read.
    pub(super) fn read<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let text = self.value()?;
        read(text).ok_or_else(|| self.fault(&format!("`{text}` is no {what}")))
    }

    /// The same, with the `!` that stands before the option.
    pub(super) fn negatable<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Negatable<T>, Fault> {
        Ok(Negatable { negated: self.negated, value: self.read(what, read)? })
    }

    /// What is wrong with the argument, or with the option where it has none.
    pub(super) fn fault(&self, message: &str) -> Fault {
        Fault::new(self.arguments.first().map_or(self.column, |word| word.column), message)
    }

    /// The option without a value, and its `!`.
    pub(super) fn flag(&self) -> Negatable<()> {
        Negatable { negated: self.negated, value: () }
    }
}

impl<'a> Options<'a> {
    /// The options in the order of the line.
    pub(super) fn iter(&self) -> impl Iterator<Item = Opt<'a>> {
        let words = self.words;
        self.given.iter().map(move |given| Opt {
            name: words[given.name].raw,
            negated: given.negated,
            column: words[given.name].column,
            arguments: &words[given.name + 1..given.end],
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// The options as they were written.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for option in self.iter() {
            let negation = option.negated.then_some("!");
            let arguments = option.arguments.iter().map(|word| word.raw);
            for word in negation.into_iter().chain([option.name]).chain(arguments) {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(word);
            }
        }
        text
    }
}
