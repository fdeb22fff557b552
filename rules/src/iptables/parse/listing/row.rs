//! A row of a listing: its columns, and its rule.

use super::words::Words;
use crate::cluster::ProtocolNumber;
use crate::iptables::ast::Rule;
use crate::iptables::targets::Listed;
use crate::iptables::text::values;
use crate::iptables::values::Negatable;

/// The columns in the heading of a chain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Columns {
    numbers: bool,
    counters: bool,
    interfaces: bool,
}

impl Columns {
    /// Reads the columns of a heading.
    pub(super) fn of(words: &[&str]) -> Self {
        let has = |name| words.contains(&name);
        Self { numbers: has("num"), counters: has("pkts"), interfaces: has("in") }
    }

    /// Guesses the columns of a row without a heading from its words.
    pub(super) fn guessed(words: &[&str]) -> Option<Self> {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let columns = all.map(|(numbers, counters)| Self { numbers, counters, interfaces: counters });
        columns.into_iter().find(|columns| {
            let before = columns.before_target();
            let counts = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
            let named = |words: &[&str]| matches!(words, [_, protocol, option, ..] if is_protocol(protocol) && is_option(option));
            words.len() > before && words[..before].iter().all(counts) && named(&words[before..]) && Row::split(words, *columns).is_some()
        })
    }

    /// Returns whether rows have interfaces.
    pub(super) fn has_interfaces(self) -> bool {
        self.interfaces
    }

    /// Returns the number of words before a rule's target.
    pub(super) fn before_target(self) -> usize {
        usize::from(self.numbers) + 2 * usize::from(self.counters)
    }
}

/// A rule's columns.
pub(super) struct Row<'a> {
    target: Option<&'a str>,
    protocol: ProtocolNumber,
    interfaces: Option<[&'a str; 2]>,
    source: &'a str,
    destination: &'a str,
    /// The words of extensions.
    words: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// Splits a row; returns nothing if the words are not a rule.
    pub(super) fn split(words: &'a [&'a str], columns: Columns) -> Option<Self> {
        let words = words.get(columns.before_target()..).filter(|words| words.len() >= 3)?;
        // A rule without a target has an empty column, and only IPv4 prints `--` for no option.
        let at = usize::from(!(words.first().is_some_and(|word| is_protocol(word)) && follows_protocol(words.get(1)?)));
        let target = (at == 1).then(|| words[0]);
        let protocol = words.get(at).filter(|word| is_protocol(word))?;
        let protocol = ProtocolNumber::parse(protocol.trim_start_matches('!'))?;
        let rest = &words[at + 1..];
        let rest = if is_option(rest.first()?) { &rest[1..] } else { rest };
        let (interfaces, rest) = match (columns.interfaces, rest) {
            (true, [input, output, rest @ ..]) => (Some([*input, *output]), rest),
            (true, _) => return None,
            (false, rest) => (None, rest),
        };
        let [source, destination, words @ ..] = rest else { return None };
        Some(Row { target, protocol, interfaces, source, destination, words })
    }

    /// Returns whether the words are the start of a row.
    pub(super) fn is_start(words: &[&str], columns: Columns) -> bool {
        let words = words.get(columns.before_target()..).unwrap_or_default();
        matches!(words, [protocol, option, ..] | [_, protocol, option, ..] if is_protocol(protocol) && is_option(option))
    }

    /// Returns the rule, and whether it is truncated.
    pub(super) fn rule(&self, rounded_digits: &mut Option<usize>) -> (Rule, bool) {
        let mut rule = Rule::default();
        if self.protocol.0 != 0 {
            rule.protocol = Some(Negatable::is(self.protocol));
        }
        let mut extensions = Words {
            words: self.words,
            rule: &mut rule,
            target: self.target,
            action: Listed::default(),
            is_known: true,
            is_cut: false,
            rounded_digits,
        };
        extensions.place(self.source, true);
        extensions.place(self.destination, false);
        extensions.is_cut = self.words.is_empty() && is_begun_address(self.destination);
        extensions.read();
        let lacks_words = |name: &str| extensions.is_known && extensions.action.lacks(name);
        let is_cut = extensions.is_cut || self.target.is_some_and(lacks_words);
        if is_cut {
            extensions.unknown("cut off");
        }
        let (action, is_known) = (extensions.action, extensions.is_known);
        if let Some([input, output]) = self.interfaces {
            rule.in_interface = interface(input);
            rule.out_interface = interface(output);
        }
        rule.target = self.target.map(|name| action.target(name, is_known));
        (rule, is_cut)
    }
}

pub(super) fn is_protocol(word: &str) -> bool {
    ProtocolNumber::parse(word.trim_start_matches('!')).is_some()
}

pub(super) fn is_option(word: &str) -> bool {
    matches!(word, "--" | "-f" | "!f" | "—" | "–")
}

fn follows_protocol(word: &str) -> bool {
    is_option(word) || word == "anywhere" || word.contains("::")
}

/// Returns whether a word consists of the digits and marks of an address, and is none: `10.152.183.`
fn is_begun_address(word: &str) -> bool {
    let is_of_address = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ':' | '/');
    word.contains(['.', ':'])
        && word.chars().all(is_of_address)
        && word.starts_with(|letter: char| letter.is_ascii_digit() || word.contains(':') && letter.is_ascii_hexdigit())
        && values::network(word).is_none()
}

fn interface(name: &str) -> Option<Negatable<Box<str>>> {
    match name.strip_prefix('!') {
        Some(name) => Some(Negatable::not(name.into())),
        None if matches!(name, "*" | "any") => None,
        None => Some(Negatable::is(name.into())),
    }
}
