//! The parser for the text of `nft list ruleset`.
//!
//! nft's text has no documented grammar; this parser covers what nft 1.0.2 to 1.1 print for kube-proxy's rules, and the commands before it
//! that flush existing tables. [`set`] parses sets and maps; tables and chains are parsed here.

mod guard;
mod set;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::mem;

pub(super) use self::set::element;
use super::super::TABLE;
use super::super::ast::{BaseChain, Chain, Rule, SetKind, Table};
use super::super::conditions::Condition;
use super::super::text::{Kind, Word, Words};
use super::rule::{self, Within};
use super::{Lines, OtherTable, ParseError, Parsed, TableName, family_of};
use crate::cluster::Family;
use crate::walk::Hook;

/// The byte offset and message of an error.
type Fault = (usize, String);

/// The tables to parse. In others, only rules are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// kube-proxy's.
    KubeProxy,
    /// All of families `ip`, `ip6` and `inet`.
    All,
}

/// Parses the text up to the first error after which nesting is unknown. Each rule that cannot be parsed is an error.
pub(super) fn parse(text: &str, scope: Scope) -> Result<Parsed, Vec<ParseError>> {
    let mut reader = Reader::of(text, scope);
    if let Err(fault) = guard::check(text).and_then(|()| reader.document()) {
        reader.faults.push(fault);
    }
    let Reader { parsed, faults, .. } = reader;
    if faults.is_empty() {
        return Ok(parsed);
    }
    Err(ParseError::at_bytes(text, faults))
}

/// The positions of a table's first sets and chains of each name.
#[derive(Default)]
struct Declared<'a> {
    sets: HashMap<&'a str, usize>,
    chains: HashMap<&'a str, usize>,
}

struct Reader<'a> {
    words: Words<'a>,
    scope: Scope,
    parsed: Parsed,
    /// Errors in single rules, after which nesting is still known.
    faults: Vec<Fault>,
    /// The `log` statements that were omitted of the table that is read.
    logs: usize,
}

impl<'a> Reader<'a> {
    fn of(text: &'a str, scope: Scope) -> Self {
        Self { words: Words::of(text), scope, parsed: Parsed::default(), faults: Vec::new(), logs: 0 }
    }

    fn document(&mut self) -> Result<(), Fault> {
        loop {
            self.words.skip_newlines();
            let Some(word) = self.words.next() else { return Ok(()) };
            if word.is("flush") || word.is("delete") {
                self.forget()?;
                continue;
            }
            if !word.is("table") {
                let message = format!("expected `table`, found `{}`", word.text);
                return Err((word.start, message));
            }
            let (family, name) = (self.name()?, self.name()?);
            self.open()?;
            self.parsed.names.push(TableName { family: family.text.to_owned(), name: name.text.to_owned() });
            let families = self.families(family.text, name.text);
            let Some(first) = families.first() else {
                let rules = self.count_rules()?;
                let (family, name) = (family.text.to_owned(), name.text.to_owned());
                self.parsed.others.push(OtherTable { family, name, rules });
                continue;
            };
            if families.iter().any(|family| self.position(*family, name.text).is_some()) {
                let named = |one: &&TableName| one.family == family.text && one.name == name.text;
                let message = if self.parsed.names.iter().filter(named).count() > 1 {
                    "this table is declared twice".to_owned()
                } else {
                    format!("another table `{}` applies to packets of the same family", name.text)
                };
                return Err((name.start, message));
            }
            let (family, name) = (*first, name.text.into());
            let within = if families.len() > 1 { Within::BothFamilies } else { Within::OneFamily };
            let empty = Table { family, name, comment: None, sets: Vec::new(), chains: Vec::new() };
            let (mut table, lines) = self.table(empty, within)?;
            table.find_dynamic_sets();
            for family in families {
                self.parsed.rules.tables.push(table_for_family(&table, *family));
                self.parsed.lines.0.push(lines.clone());
            }
        }
    }

    /// Returns the families that a table applies to, if it is in scope: both for `inet`.
    fn families(&self, family: &str, name: &str) -> &'static [Family] {
        match (family_of(family), self.scope) {
            (Some(_), Scope::KubeProxy) if name != TABLE => &[],
            (Some(Family::Ipv4), _) => &[Family::Ipv4],
            (Some(Family::Ipv6), _) => &[Family::Ipv6],
            (None, Scope::All) if family == "inet" => &Family::ALL,
            (None, _) => &[],
        }
    }

    fn position(&self, family: Family, name: &str) -> Option<usize> {
        self.parsed.rules.tables.iter().position(|table| table.family == family && *table.name == *name)
    }

    /// `flush ruleset`, or `flush table ip kube-proxy`: earlier declarations only ensure that there is something to flush, and are repeated
    /// later. Other flush commands empty parts of such a table.
    fn forget(&mut self) -> Result<(), Fault> {
        match self.name()?.text {
            "ruleset" => self.parsed = Parsed::default(),
            "table" => {
                let (family, name) = (self.name()?, self.name()?);
                self.parsed.names.retain(|one| one.family != family.text || one.name != name.text);
                for family in self.families(family.text, name.text) {
                    if let Some(position) = self.position(*family, name.text) {
                        self.parsed.rules.tables.remove(position);
                        self.parsed.lines.0.remove(position);
                    }
                }
            }
            _ => (0..3).try_for_each(|_| self.name().map(drop))?,
        }
        Ok(())
    }

    /// Parses up to the table's `}`. Repeated declarations are merged with the first, as in nft.
    fn table(&mut self, mut table: Table, within: Within) -> Result<(Table, Lines), Fault> {
        let mut lines = Lines::default();
        let mut declared = Declared::default();
        let is_own = *table.name == *TABLE;
        while let Some(word) = self.inside()? {
            match word.text {
                "comment" => table.comment = Some(self.quoted()?),
                kind @ ("set" | "map") => {
                    let kind = if kind == "set" { SetKind::Set } else { SetKind::VerdictMap };
                    let name = self.name()?;
                    self.open()?;
                    let (set, elements) = self.set(name, kind, table.family)?;
                    let at = *declared.sets.entry(name.text).or_insert(table.sets.len());
                    match table.sets.get_mut(at).filter(|first| first.is_declared_as(&set)) {
                        Some(first) => {
                            first.elements.extend(set.elements);
                            lines.sets[at].1.extend(elements);
                        }
                        None => {
                            table.sets.push(set);
                            lines.sets.push((word.line, elements));
                        }
                    }
                }
                "chain" => {
                    let name = self.name()?;
                    self.open()?;
                    let (chain, rules) = self.chain(name, within)?;
                    let at = *declared.chains.entry(name.text).or_insert(table.chains.len());
                    let is_same = |first: &&mut Chain| chain.base.is_none() || first.base == chain.base;
                    match table.chains.get_mut(at).filter(is_same) {
                        Some(first) => {
                            first.rules.extend(chain.rules);
                            lines.chains[at].1.extend(rules);
                        }
                        None => {
                            table.chains.push(chain);
                            lines.chains.push((word.line, rules));
                        }
                    }
                }
                // It counts, which does not affect packets.
                "counter" => self.skip_statement()?,
                "flags" => self.flags(word.start)?,
                other if is_own => {
                    let message = format!("`{other}` is not supported in kube-proxy's table");
                    return Err((word.start, message));
                }
                // Named objects: rules that use them are kept as text.
                _ => self.skip_statement()?,
            }
        }
        lines.logs = mem::take(&mut self.logs);
        Ok((table, lines))
    }

    /// Parses the flags of a table, after the keyword at a byte offset.
    fn flags(&mut self, at: usize) -> Result<(), Fault> {
        let mut flags = Vec::new();
        self.rest_of_line(&mut flags)?;
        if flags.iter().any(|flag| flag.is("dormant")) {
            return Err((at, "the table is dormant: the kernel evaluates none of its chains".to_owned()));
        }
        Ok(())
    }

    /// Parses a chain; returns it with the lines of its rules.
    fn chain(&mut self, name: Word<'a>, within: Within) -> Result<(Chain, Vec<usize>), Fault> {
        let mut chain = Chain::regular(name.text.into());
        let mut lines = Vec::new();
        let mut words = Vec::new();
        while let Some(first) = self.inside()? {
            match first.text {
                "comment" => chain.comment = Some(self.quoted()?),
                "type" => chain.base = Some(self.base_chain()?),
                "policy" => {
                    let word = self.name()?;
                    let base = chain.base.as_mut();
                    let base = base.ok_or_else(|| (first.start, "a policy without `type ... hook`".to_owned()))?;
                    base.drops = match word.text {
                        "accept" => false,
                        "drop" => true,
                        other => return Err((word.start, format!("there is no policy `{other}`"))),
                    };
                }
                _ => {
                    words.clear();
                    words.push(first);
                    self.rest_of_line(&mut words)?;
                    match rule::from_words(self.words.source(), &words, within) {
                        Ok((rule, logs)) => {
                            self.logs += logs;
                            chain.rules.push(rule);
                            lines.push(first.line);
                        }
                        Err(fault) => self.faults.push(fault),
                    }
                }
            }
        }
        Ok((chain, lines))
    }

    /// Parses what follows `type`: `nat hook prerouting priority dstnat - 10`.
    fn base_chain(&mut self) -> Result<BaseChain, Fault> {
        let kind = self.name()?;
        let nat = match kind.text {
            "nat" => true,
            "filter" => false,
            other => return Err((kind.start, format!("chains of type `{other}` are not known"))),
        };
        self.expect("hook")?;
        let word = self.name()?;
        let hook = Hook::ALL.into_iter().find(|hook| hook.lowercase() == word.text);
        let hook = hook.ok_or_else(|| (word.start, format!("there is no hook `{}` in these tables", word.text)))?;
        self.expect("priority")?;
        let start = self.words.peek().map_or(0, |word| word.start);
        let mut text = String::new();
        while let Some(word) = self.words.next().filter(|word| !word.is_end()) {
            text += word.text;
        }
        let priority = priority(&text).ok_or_else(|| (start, format!("`{text}` is not a valid priority")))?;
        Ok(BaseChain { nat, hook, priority, drops: false })
    }

    /// Counts the rules up to the table's `}`.
    fn count_rules(&mut self) -> Result<usize, Fault> {
        let mut rules = 0;
        while let Some(word) = self.inside()? {
            if !word.is("chain") {
                self.skip_statement()?;
                continue;
            }
            self.name()?;
            self.open()?;
            while let Some(first) = self.inside()? {
                rules += usize::from(!matches!(first.text, "type" | "policy" | "comment" | "flags"));
                self.skip_statement()?;
            }
        }
        Ok(rules)
    }

    /// Returns the first word of the next statement in a block; nothing at the end of the block.
    fn inside(&mut self) -> Result<Option<Word<'a>>, Fault> {
        while self.words.peek().is_some_and(|word| word.is_end()) {
            self.words.next();
        }
        let word = self.words.next().ok_or_else(|| self.cut())?;
        Ok(Some(word).filter(|word| !word.is("}")))
    }

    /// Skips the rest of a statement: to the end of the line, or of the block that it opens.
    fn skip_statement(&mut self) -> Result<(), Fault> {
        self.rest_of_line(&mut Vec::new())
    }

    /// Reads the words up to the end of the line outside of braces, or of the block.
    fn rest_of_line(&mut self, words: &mut Vec<Word<'a>>) -> Result<(), Fault> {
        let mut depth = 0_usize;
        loop {
            let word = self.words.peek().ok_or_else(|| self.cut())?;
            if depth == 0 && (word.is_end() || word.is("}")) {
                return Ok(());
            }
            depth = depth + usize::from(word.is("{")) - usize::from(word.is("}"));
            words.extend(self.words.next().filter(|word| word.kind != Kind::Newline));
        }
    }

    fn name(&mut self) -> Result<Word<'a>, Fault> {
        let word = self.words.next().ok_or_else(|| self.cut())?;
        match word.kind {
            Kind::Plain => Ok(word),
            Kind::Newline => Err((word.start, "unexpected end of line".to_owned())),
            Kind::Quoted | Kind::Sign => Err((word.start, format!("expected a word, found `{}`", word.text))),
        }
    }

    fn quoted<T: From<&'a str>>(&mut self) -> Result<T, Fault> {
        let word = self.words.next().ok_or_else(|| self.cut())?;
        match word.kind {
            Kind::Quoted => Ok(T::from(word.text)),
            _ => Err((word.start, "expected a quoted string".to_owned())),
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), Fault> {
        if self.words.take(text) {
            return Ok(());
        }
        let start = self.words.peek().ok_or_else(|| self.cut())?.start;
        Err((start, format!("expected `{text}`")))
    }

    fn open(&mut self) -> Result<(), Fault> {
        self.expect("{")
    }

    /// Returns the error of a truncated text.
    fn cut(&self) -> Fault {
        let text = self.words.source();
        (text.trim_end().len(), "the text ends inside of a table: it may have been cut".to_owned())
    }
}

/// Returns the table for packets of one family: rules for the other family keep only the family condition.
fn table_for_family(table: &Table, family: Family) -> Table {
    let mut table = Table { family, ..table.clone() };
    for rule in table.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        let other = |condition: &Condition| matches!(condition, Condition::Family(asked) if *asked != family);
        if let Some(condition) = rule.conditions.iter().find(|condition| other(condition)).cloned() {
            *rule = Rule { conditions: vec![condition], statements: Vec::new(), comment: rule.comment.take() };
        }
    }
    table
}

/// Parses a priority without blanks: a number, or nft's name with an offset: `-110`, `filter`, `dstnat-10`.
fn priority(text: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 6] =
        [("raw", -300), ("mangle", -150), ("dstnat", -100), ("filter", 0), ("security", 50), ("srcnat", 100)];
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (rest, number) = NAMES.iter().find_map(|(name, number)| Some((text.strip_prefix(name)?, *number)))?;
    if rest.is_empty() { Some(number) } else { number.checked_add(rest.parse().ok()?) }
}
