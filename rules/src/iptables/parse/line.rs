//! Parsing of one rule: its options, and the match or target that each belongs to.

use std::ops::Range;

use super::super::ast::{Counters, Rule};
use super::super::matches::{Extension, Match, Other};
use super::super::targets::{self, Target, is_known_extension, lacking};
use super::super::text::{Fault, Given, Options, Owner, Word, split, values};
use super::super::values::Negatable;
use super::guard;
use crate::cluster::{Family, ProtocolNumber};

/// A `-m` option that was read.
struct Loaded<'a> {
    name: &'a str,
    extension: Option<&'static Extension>,
}

/// A reader of rules, which reuses its buffers from one line to the next.
#[derive(Default)]
pub(super) struct RuleReader<'a> {
    words: Vec<Word<'a>>,
    /// The options; after reading, sorted by match, with the target's last.
    given: Vec<Given>,
    loaded: Vec<Loaded<'a>>,
    /// The position of the last match of each modelled extension, so that an option finds its match quickly in a line of any length.
    last_of_extension: Vec<(&'static Extension, usize)>,
}

impl<'a> RuleReader<'a> {
    /// Reads the matches and the target of a line from a byte offset. A chain takes precedence over a target of the same name.
    pub(super) fn read(
        &mut self,
        line: &'a str,
        start: usize,
        family: Family,
        is_chain: impl Fn(&str) -> bool,
    ) -> Result<Rule, Fault> {
        self.words.clear();
        self.given.clear();
        self.loaded.clear();
        self.last_of_extension.clear();
        split(line, start, &mut self.words)?;
        guard::check(line, &self.words)?;
        let mut rule = Rule::default();
        let target = self.scan(&mut rule, family)?;
        rule.matches.reserve_exact(self.loaded.len());
        // They are usually in this order already.
        self.given.sort_by_key(|given| given.owner);
        let mut given = self.given.as_slice();
        for (index, loaded) in self.loaded.iter().enumerate() {
            let own = given.iter().take_while(|given| given.owner == Owner::Match(index)).count();
            let (own, rest) = given.split_at(own);
            given = rest;
            let options = Options { words: &self.words, given: own, family };
            let modelled = loaded.extension.map(|extension| extension.parse(&options)).transpose()?.flatten();
            rule.matches.push(modelled.unwrap_or_else(|| Match::Other(other(loaded.name, &options))));
        }
        let options = Options { words: &self.words, given, family };
        rule.target = match target {
            None => None,
            Some((at, goto)) => {
                let word = &self.words[at];
                let next = if goto {
                    Next::Goto
                } else if is_chain(&word.text) {
                    Next::Chain
                } else {
                    Next::Any
                };
                Some(target_of(word, next, &options)?)
            }
        };
        Ok(rule)
    }

    /// Scans the words: sets the general options of the rule, and collects matches and their options. Returns the position of the target's
    /// name, and whether it follows `-g`.
    fn scan(&mut self, rule: &mut Rule, family: Family) -> Result<Option<(usize, bool)>, Fault> {
        let mut target = None;
        let mut at = 0;
        while at < self.words.len() {
            let negated = self.words[at].raw == "!";
            at += usize::from(negated);
            let Some(word) = self.words.get(at).filter(|word| word.is_syntax() && word.raw != "!") else {
                let place = self.words.get(at).or(self.words.last());
                let column = place.map_or(0, |word| word.column);
                return Err(Fault::new(column, "expected an option"));
            };
            let (name, column) = (word.raw, word.column);
            // A comment may look like an option: iptables accepts it, and prints a single word without quotes.
            let arguments = if name == "--comment" { at + 2 } else { at + 1 };
            let end = self.end_of_arguments(arguments.min(self.words.len()));
            match name {
                "-m" | "--match" => {
                    let extension = self.argument(at, end)?;
                    if !is_extension(extension) {
                        return Err(Fault::new(self.words[at + 1].column, format!("invalid match name `{extension}`")));
                    }
                    self.load(extension, Extension::of(extension));
                }
                "-j" | "--jump" | "-g" | "--goto" => {
                    let name_of_target = self.argument(at, end)?;
                    if name_of_target.contains('/') {
                        let message = format!("invalid target name `{name_of_target}`");
                        return Err(Fault::new(self.words[at + 1].column, message));
                    }
                    target = Some((at + 1, matches!(name, "-g" | "--goto")));
                }
                "-4" | "-6" | "--ipv4" | "--ipv6" => {}
                _ if name.starts_with("--") && !is_general(name) => {
                    let owner = self.owner(name, column, target.is_some(), rule)?;
                    self.given.push(Given { owner, negated, name: at, end });
                }
                _ => self.general(rule, (name, negated), at..end, family)?,
            }
            at = end;
        }
        Ok(target)
    }

    fn end_of_arguments(&self, from: usize) -> usize {
        let rest = &self.words[from..];
        from + rest.iter().position(Word::is_syntax).unwrap_or(rest.len())
    }

    /// Returns the single argument of the option at a position.
    fn argument(&self, at: usize, end: usize) -> Result<&'a str, Fault> {
        let option = &self.words[at];
        match end - at {
            2 => Ok(self.words[at + 1].raw.trim_matches('"')),
            1 => Err(Fault::new(option.column, format!("`{}` needs a value", option.raw))),
            _ => Err(Fault::new(self.words[at + 2].column, "expected an option")),
        }
    }

    /// Returns the owner of an option: the target after `-j`, otherwise the last match that has it, otherwise the last match. A protocol
    /// loads its match, as in `-p tcp --dport 80`.
    fn owner(&mut self, name: &str, column: usize, is_after_target: bool, rule: &Rule) -> Result<Owner, Fault> {
        if is_after_target {
            return Ok(Owner::Target);
        }
        // A match that is not modelled may have any option, but only options after it are certainly its own.
        if let Some(index) = self.loaded.len().checked_sub(1).filter(|last| self.loaded[*last].extension.is_none()) {
            return Ok(Owner::Match(index));
        }
        let knows = |(extension, _): &&(&Extension, usize)| extension.knows(name);
        if let Some((_, index)) = self.last_of_extension.iter().filter(knows).max_by_key(|(_, index)| *index) {
            return Ok(Owner::Match(*index));
        }
        let transport = rule.protocol.filter(|protocol| !protocol.negated).and_then(|p| p.value.transport());
        let extension = transport.and_then(|protocol| Extension::of(protocol.as_str()));
        if let Some(extension) = extension.filter(|extension| extension.knows(name)) {
            self.load(extension.name, Some(extension));
            return Ok(Owner::Match(self.loaded.len() - 1));
        }
        match self.loaded.len() {
            0 => Err(Fault::new(column, format!("unknown option `{name}`"))),
            count => Ok(Owner::Match(count - 1)),
        }
    }

    /// Records a match.
    fn load(&mut self, name: &'a str, extension: Option<&'static Extension>) {
        let index = self.loaded.len();
        if let Some(extension) = extension {
            match self.last_of_extension.iter_mut().find(|(known, _)| known.name == extension.name) {
                Some(last) => last.1 = index,
                None => self.last_of_extension.push((extension, index)),
            }
        }
        self.loaded.push(Loaded { name, extension });
    }

    /// Reads a general option of the rule, given its name, whether it follows a `!`, and its words.
    fn general(
        &self,
        rule: &mut Rule,
        (name, negated): (&str, bool),
        Range { start: at, end }: Range<usize>,
        family: Family,
    ) -> Result<(), Fault> {
        if matches!(name, "-f" | "--fragment") {
            rule.fragment = Some(Negatable { negated, value: () });
            return Ok(());
        }
        if matches!(name, "-c" | "--set-counters") {
            let number = |offset: usize| self.words.get(at + offset).and_then(|word| word.text.parse().ok());
            let (Some(packets), Some(bytes), 3) = (number(1), number(2), end - at) else {
                return Err(Fault::new(self.words[at].column, "`-c` needs packets and bytes"));
            };
            rule.counters = Some(Counters { packets, bytes });
            return Ok(());
        }
        let text = self.argument(at, end)?;
        let fault = |what: &str| Fault::new(self.words[at + 1].column, format!("`{text}` is not a valid {what}"));
        let interface = || Some(Negatable { negated, value: Box::from(text) });
        let network = || {
            let value = values::network(text).filter(|network| network.family() == family);
            let value = value.ok_or_else(|| fault(&format!("{family} address or range")))?;
            Ok(Some(Negatable { negated, value }))
        };
        match name {
            "-s" | "--source" | "--src" => rule.source = network()?,
            "-d" | "--destination" | "--dst" => rule.destination = network()?,
            "-i" | "--in-interface" => rule.in_interface = interface(),
            "-o" | "--out-interface" => rule.out_interface = interface(),
            "-p" | "--protocol" | "--proto" => {
                let value = ProtocolNumber::parse(text).ok_or_else(|| fault("protocol"))?;
                rule.protocol = Some(Negatable { negated, value });
            }
            _ => return Err(Fault::new(self.words[at].column, format!("unknown option `{name}`"))),
        }
        Ok(())
    }
}

/// Returns whether a match can have this name, which becomes part of a library's path in iptables.
fn is_extension(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
}

fn is_general(name: &str) -> bool {
    matches!(
        name,
        "--source"
            | "--src"
            | "--destination"
            | "--dst"
            | "--in-interface"
            | "--out-interface"
            | "--protocol"
            | "--proto"
            | "--fragment"
            | "--set-counters"
    )
}

/// The kind of a target's name, before its options are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It follows `-g`.
    Goto,
    /// It is the name of a chain.
    Chain,
    /// No chain of this name is known.
    Any,
}

fn target_of(word: &Word<'_>, next: Next, options: &Options<'_>) -> Result<Target, Fault> {
    let name = &*word.text;
    if next == Next::Goto {
        return Ok(Target::Goto(name.into()));
    }
    if let Some(target) = targets::built_in(name) {
        return Ok(target);
    }
    if next == Next::Chain && options.is_empty() {
        return Ok(Target::Jump(name.into()));
    }
    if let Some(required) = lacking(name, options) {
        let (one_of, required) = (if required.len() > 1 { "one of " } else { "" }, required.join("`, `"));
        return Err(Fault::new(word.column, format!("the target `{name}` needs {one_of}`{required}`")));
    }
    if let Some(target) = targets::parse(name, options)? {
        return Ok(target);
    }
    if options.is_empty() && !is_known_extension(name) {
        return Ok(Target::Jump(name.into()));
    }
    Ok(Target::Other(other(name, options)))
}

/// Keeps an extension as it was written.
fn other(name: &str, options: &Options<'_>) -> Box<Other> {
    Box::new(Other { name: name.into(), text: options.text().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest line is read in linear time: the cost of finding an option's match depends on the number of extensions, not on the
    /// length of the line.
    #[test]
    fn the_search_for_an_option_does_not_grow_with_the_line() {
        let mut looked = Vec::new();
        for count in [10, 150] {
            let line =
                "-m comment --comment x -m mark --mark 0x1 -m unknown --option x ".repeat(count) + "--mark 0x2 -j X";
            let mut reader = RuleReader::default();
            let rule = reader.read(&line, 0, Family::Ipv4, |_| false);
            assert_eq!(rule.map(|rule| rule.matches.len()), Ok(3 * count));
            assert!(reader.given.is_sorted_by_key(|given| given.owner));
            looked.push((reader.last_of_extension.len(), reader.given.len() - 3 * count));
        }
        assert_eq!(looked, [(2, 1); 2]);
    }
}
