//! The options of one match or target.

use super::words::{Fault, Word};
use crate::cluster::Family;
use crate::iptables::Negatable;

/// The match or target that an option belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::iptables) enum Owner {
    /// The match at this position.
    Match(usize),
    /// The target.
    Target,
}

/// An option in a line.
#[derive(Debug, Clone, Copy)]
pub(in crate::iptables) struct Given {
    pub(in crate::iptables) owner: Owner,
    pub(in crate::iptables) negated: bool,
    /// The position of its name among the words; arguments follow.
    pub(in crate::iptables) name: usize,
    /// The position after its last argument.
    pub(in crate::iptables) end: usize,
}

/// The options of an owner.
pub(in crate::iptables) struct Options<'a> {
    pub(in crate::iptables) words: &'a [Word<'a>],
    pub(in crate::iptables) given: &'a [Given],
    pub(in crate::iptables) family: Family,
}

/// One option: its name and arguments.
pub(in crate::iptables) struct Opt<'a> {
    pub(in crate::iptables) name: &'a str,
    pub(in crate::iptables) negated: bool,
    pub(in crate::iptables) column: usize,
    arguments: &'a [Word<'a>],
}

impl<'a> Opt<'a> {
    /// Returns the only argument.
    pub(in crate::iptables) fn value(&self) -> Result<&'a str, Fault> {
        match self.arguments {
            [word] => Ok(&word.text),
            [] => Err(Fault::new(self.column, format!("`{}` needs a value", self.name))),
            [_, more, ..] => Err(Fault::new(more.column, "expected an option")),
        }
    }

    /// Returns the two arguments.
    pub(in crate::iptables) fn pair(&self) -> Result<(&'a str, &'a str), Fault> {
        match self.arguments {
            [first, second] => Ok((&first.text, &second.text)),
            _ => Err(Fault::new(self.column, format!("`{}` needs two values", self.name))),
        }
    }

    /// Returns the only argument, parsed.
    pub(in crate::iptables) fn read<T>(&self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let text = self.value()?;
        read(text).ok_or_else(|| self.fault(&format!("`{text}` is not a valid {what}")))
    }

    /// Returns the value of the option, and whether it is negated.
    pub(in crate::iptables) fn negatable<T>(
        &self,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Negatable<T>, Fault> {
        Ok(Negatable { negated: self.negated, value: self.read(what, read)? })
    }

    /// Returns an error at the argument, or at the option if it has none.
    pub(in crate::iptables) fn fault(&self, message: &str) -> Fault {
        Fault::new(self.arguments.first().map_or(self.column, |word| word.column), message)
    }

    /// Returns an option without a value, and whether it is negated.
    pub(in crate::iptables) fn flag(&self) -> Negatable<()> {
        Negatable { negated: self.negated, value: () }
    }
}

impl<'a> Options<'a> {
    /// Returns the options in the order of the line.
    pub(in crate::iptables) fn iter(&self) -> impl Iterator<Item = Opt<'a>> {
        let words = self.words;
        self.given.iter().map(move |given| Opt {
            name: words[given.name].raw,
            negated: given.negated,
            column: words[given.name].column,
            arguments: &words[given.name + 1..given.end],
        })
    }

    pub(in crate::iptables) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns the options as written.
    pub(in crate::iptables) fn text(&self) -> String {
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

/// An option of an extension that is kept as text.
pub(in crate::iptables) struct KeptOption<'a> {
    pub(in crate::iptables) negated: bool,
    pub(in crate::iptables) name: &'a str,
    arguments: Vec<&'a str>,
}

/// Splits a text into options; nothing if it contains quotes, or words before the first option.
pub(in crate::iptables) fn kept_options(text: &str) -> Option<Vec<KeptOption<'_>>> {
    let mut options: Vec<KeptOption<'_>> = Vec::new();
    let mut negated = false;
    for word in text.split_whitespace() {
        match word {
            "!" => negated = true,
            _ if word.contains(['"', '\'']) => return None,
            _ if word.starts_with("--") => {
                options.push(KeptOption { negated, name: word, arguments: Vec::new() });
                negated = false;
            }
            _ => options.last_mut()?.arguments.push(word),
        }
    }
    Some(options)
}

impl<'a> KeptOption<'a> {
    /// Returns the only argument.
    pub(in crate::iptables) fn argument(&self) -> Option<&'a str> {
        match self.arguments[..] {
            [argument] => Some(argument),
            _ => None,
        }
    }
}
