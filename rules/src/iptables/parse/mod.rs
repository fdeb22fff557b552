//! The parser for the output of `iptables-save`, with or without counters, and the input of `iptables-restore`.

mod complete_chains;
mod excerpt;
mod guard;
mod line;
mod listing;
mod merge_excerpts;
mod tables;

use std::collections::HashMap;

pub use self::excerpt::{ELLIPSIS, End, Excerpt, OLDER, parse_excerpt};
pub use self::guard::MAX_LINE_BYTES;
use self::line::RuleReader;
pub use self::listing::{Listing, ListingLine, ListingReader, parse_listing, unfold};
pub use self::merge_excerpts::ExcerptMerger;
use serde::{Deserialize, Serialize};

use super::ast::{Chain, Counters, Policy, Rule, RuleSet, Table};
use super::table_name::TableName;
use super::text::Fault;
use super::values::ChainName;
use crate::cluster::Family;
use crate::walk::Hook;

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The whole line.
    pub text: String,
    /// What is wrong, as a lower-case fragment.
    pub message: String,
}

/// The end of the message for a table without its last line.
const MISSING_COMMIT: &str = " is missing `COMMIT`: iptables-restore would not load it";

impl ParseError {
    /// Returns whether the error is a missing `COMMIT`.
    #[doc(hidden)]
    pub fn is_missing_commit(&self) -> bool {
        self.message.ends_with(MISSING_COMMIT)
    }
}

/// A rule set, with the lines of its rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The rules.
    pub rules: RuleSet,
    /// The line of every rule.
    pub lines: SourceLines,
}

/// Rules that were not parsed from text have no lines.
impl From<RuleSet> for Parsed {
    fn from(rules: RuleSet) -> Self {
        Self { rules, lines: SourceLines::default() }
    }
}

/// The lines that rules were read from, in the layout of their rule set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceLines(Vec<Vec<Vec<usize>>>);

impl SourceLines {
    /// Returns the line, from 1, of a rule, given the positions of its table, its chain and itself.
    pub fn line(&self, table: usize, chain: usize, rule: usize) -> Option<usize> {
        self.0.get(table)?.get(chain)?.get(rule).copied().filter(|line| *line > 0)
    }

    /// Returns whether these can be the lines of a rule set: it has as many tables, chains and rules.
    #[doc(hidden)]
    pub fn fit(&self, rules: &RuleSet) -> bool {
        let counts = self.0.iter().map(|table| table.iter().map(Vec::len).collect::<Vec<_>>());
        let of_rules = |table: &Table| table.chains.iter().map(|chain| chain.rules.len()).collect::<Vec<_>>();
        counts.eq(rules.tables.iter().map(of_rules))
    }
}

impl Parsed {
    /// Removes a chain, given the positions of its table and itself.
    pub fn remove_chain(&mut self, table: usize, chain: usize) {
        self.rules.tables[table].chains.remove(chain);
        if let Some(lines) = self.lines.0.get_mut(table).filter(|lines| chain < lines.len()) {
            lines.remove(chain);
        }
    }

    /// Returns the position of a table, and creates it if it does not exist.
    pub(crate) fn table(&mut self, name: TableName) -> usize {
        let known = self.rules.tables.iter().position(|table| table.name == name);
        known.unwrap_or_else(|| {
            self.rules.tables.push(Table { name, chains: Vec::new() });
            self.rules.tables.len() - 1
        })
    }

    /// Keeps only some tables.
    pub fn retain_tables(&mut self, keep: impl Fn(TableName) -> bool) {
        let mut kept = self.rules.tables.iter().map(|table| keep(table.name));
        let SourceLines(lines) = &mut self.lines;
        lines.retain(|_| kept.next().unwrap_or(false));
        self.rules.tables.retain(|table| keep(table.name));
    }

    /// Returns the lines of a chain's rules; 0 for a rule without a line.
    pub(crate) fn lines_of(&self, (table, chain): (usize, usize)) -> Vec<usize> {
        self.lines.0.get(table).and_then(|lines| lines.get(chain)).cloned().unwrap_or_default()
    }

    /// Sets the lines of a chain's rules.
    pub(crate) fn set_lines(&mut self, (table, chain): (usize, usize), lines: Vec<usize>) {
        let SourceLines(all) = &mut self.lines;
        all.resize_with(all.len().max(table + 1), Vec::new);
        let of_table = &mut all[table];
        of_table.resize_with(of_table.len().max(chain + 1), Vec::new);
        of_table[chain] = lines;
    }
}

/// Parses a document.
///
/// Rules stay in the order of their chain. A match or target that is not modelled is kept as text
/// ([`super::Match::Other`], [`super::Target::Other`]). The commands of `iptables-restore` are executed:
/// `-A`, `-I`, `-N`, `-P`, `-F`, `-X`.
///
/// # Errors
///
/// Every line that cannot be parsed: a rule outside of a table or for an undeclared chain, an invalid value, an option that belongs to no
/// match. As in `iptables-restore`, a table without `COMMIT` is an error too: the text may be a truncated dump.
pub fn parse(text: &str, family: Family) -> Result<Parsed, Vec<ParseError>> {
    let mut document = Document::new(family);
    let mut errors = Vec::new();
    let mut last = (0, "");
    let rejected = |index: usize, line: &str, fault: Fault| {
        let column = line.get(..fault.column).map_or(0, |before| before.chars().count()) + 1;
        ParseError { line: index + 1, column, text: line.to_owned(), message: fault.message }
    };
    for (index, line) in text.lines().enumerate() {
        last = (index, line);
        if let Err(fault) = document.line(index + 1, line) {
            errors.push(rejected(index, line, fault));
        }
    }
    if let Err(fault) = document.no_open_table(0) {
        errors.push(rejected(last.0, last.1, fault));
    }
    if errors.is_empty() { Ok(document.parsed()) } else { Err(errors) }
}

/// Parses the output of `iptables-save` or `ip6tables-save`.
///
/// # Errors
///
/// As [`parse`], for the family in which more lines can be parsed.
pub fn parse_either_family(text: &str) -> Result<Parsed, Vec<ParseError>> {
    parse(text, Family::Ipv4)
        .or_else(|ipv4| parse(text, Family::Ipv6).map_err(|ipv6| if ipv6.len() < ipv4.len() { ipv6 } else { ipv4 }))
}

/// Parses the matches and target of one rule: the text after `-A CHAIN`. No chain is assumed to have the name of a target.
///
/// # Errors
///
/// The first error, reported for line 1.
pub fn parse_rule(text: &str, family: Family) -> Result<Rule, ParseError> {
    RuleReader::default().read(text, 0, family, |_| false).map_err(|fault| {
        let column = text.get(..fault.column).map_or(0, |before| before.chars().count()) + 1;
        ParseError { line: 1, column, text: text.to_owned(), message: fault.message }
    })
}

/// The document read so far.
struct Document<'a> {
    rules: RuleSet,
    lines: SourceLines,
    reader: RuleReader<'a>,
    /// The position of the current table.
    table: Option<usize>,
    /// The positions of every table's chains.
    chains: Vec<HashMap<ChainName, usize>>,
    /// The chain of the last rule: the next one is usually in the same chain.
    last: Option<(usize, usize)>,
}

impl<'a> Document<'a> {
    fn new(family: Family) -> Self {
        Self {
            rules: RuleSet::new(family),
            lines: SourceLines::default(),
            reader: RuleReader::default(),
            table: None,
            chains: Vec::new(),
            last: None,
        }
    }

    fn line(&mut self, number: usize, line: &'a str) -> Result<(), Fault> {
        let start = line.len() - line.trim_start().len();
        let text = line.trim();
        match text.as_bytes().first() {
            None | Some(b'#') => Ok(()),
            Some(b'*') => self.open_table(&text[1..], start + 1),
            Some(b':') => self.declare(&text[1..], start + 1),
            Some(b'[') => {
                let Some((counters, rest)) = text.split_once("] ") else {
                    return Err(Fault::new(start, "counters without a rule"));
                };
                let counters = counters_of(&counters[1..]).ok_or_else(|| Fault::new(start, "no counters"))?;
                self.command(number, line, start + text.len() - rest.len(), Some(counters))
            }
            _ if text == "COMMIT" => {
                self.current_table(start)?;
                self.table = None;
                Ok(())
            }
            _ => self.command(number, line, start, None),
        }
    }

    /// Returns the result, without spare capacity.
    fn parsed(mut self) -> Parsed {
        let chains = self.rules.tables.iter_mut().flat_map(|table| &mut table.chains);
        chains.for_each(|chain| chain.rules.shrink_to_fit());
        self.lines.0.iter_mut().flatten().for_each(Vec::shrink_to_fit);
        Parsed { rules: self.rules, lines: self.lines }
    }

    /// Returns an error if a table is still open.
    fn no_open_table(&self, column: usize) -> Result<(), Fault> {
        let Some(open) = self.table else { return Ok(()) };
        let name = self.rules.tables[open].name;
        let message = format!("table `{name}`{MISSING_COMMIT}");
        Err(Fault::new(column, message))
    }

    fn open_table(&mut self, name: &str, column: usize) -> Result<(), Fault> {
        let unended = self.no_open_table(column);
        let name = TableName::ALL
            .into_iter()
            .find(|table| table.as_str() == name.trim())
            .ok_or_else(|| Fault::new(column, format!("unknown table `{name}`")))?;
        self.last = None;
        if let Some(known) = self.rules.tables.iter().position(|table| table.name == name) {
            self.table = Some(known);
            let message = format!(
                "table `{name}` is declared twice: iptables-restore empties it here, and keeps only what follows"
            );
            return Err(Fault::new(column, message));
        }
        self.table = Some(self.rules.tables.len());
        self.rules.tables.push(Table { name, chains: Vec::new() });
        self.lines.0.push(Vec::new());
        self.chains.push(HashMap::new());
        unended
    }

    /// `:CHAIN POLICY [packets:bytes]`.
    fn declare(&mut self, text: &str, column: usize) -> Result<(), Fault> {
        let mut words = text.split_whitespace();
        let (Some(name), Some(policy)) = (words.next(), words.next()) else {
            return Err(Fault::new(column, "a chain is declared as `:NAME POLICY [packets:bytes]`"));
        };
        let policy = policy_of(policy, name).map_err(|message| Fault::new(column, message))?;
        let counters = words.next().and_then(|word| counters_of(word.trim_matches(['[', ']'])));
        if let Some(more) = words.next() {
            return Err(Fault::new(column, format!("unexpected `{more}` after the counters of a chain")));
        }
        let chain = self.chain_or_new(name, column)?;
        chain.policy = policy;
        chain.counters = counters.unwrap_or_default();
        Ok(())
    }

    fn command(&mut self, number: usize, line: &'a str, start: usize, counters: Option<Counters>) -> Result<(), Fault> {
        let text = &line[start..];
        let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
        self.current_table(start)?;
        let rest = rest.trim_start();
        let chain_column = line.len() - rest.len();
        let (chain, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let chain = chain.trim_matches('"');
        let after_column = line.len() - after.len();
        match command {
            "-A" | "--append" => {
                let place = self.chain_of_rule(chain, chain_column)?;
                self.add(number, place, line, after_column, None, counters)
            }
            "-I" | "--insert" => {
                let (position, column) = match after.split_once(' ') {
                    Some((word, rest)) if word.parse::<usize>().is_ok() => {
                        (word.parse().unwrap_or(1), line.len() - rest.len())
                    }
                    _ => (1, after_column),
                };
                let place = self.chain_of_rule(chain, chain_column)?;
                self.add(number, place, line, column, Some(position), counters)
            }
            "-N" | "--new-chain" | "-F" | "--flush" | "-X" | "--delete-chain" if !after.trim().is_empty() => {
                Err(Fault::new(after_column, format!("unexpected words after `{command} {chain}`")))
            }
            "-N" | "--new-chain" => self.chain_or_new(chain, chain_column).map(|_| ()),
            "-P" | "--policy" => {
                let policy = policy_of(after.trim(), chain).map_err(|message| Fault::new(after_column, message))?;
                self.chain_or_new(chain, chain_column)?.policy = policy;
                Ok(())
            }
            "-F" | "--flush" => self.clear(chain, chain_column),
            "-X" | "--delete-chain" => self.remove(chain, chain_column),
            _ => Err(Fault::new(start, format!("unknown command `{command}`"))),
        }
    }

    fn add(
        &mut self,
        number: usize,
        (table, index): (usize, usize),
        line: &'a str,
        column: usize,
        position: Option<usize>,
        counters: Option<Counters>,
    ) -> Result<(), Fault> {
        let chains = &self.chains[table];
        let rule = self.reader.read(line, column, self.rules.family, |name| chains.contains_key(name))?;
        let rule = Rule { counters: counters.or(rule.counters), ..rule };
        let rules = &mut self.rules.tables[table].chains[index].rules;
        let at = position.map_or(rules.len(), |position| position.saturating_sub(1).min(rules.len()));
        // Most chains have one or two rules, but a vector's first allocation holds four.
        if rules.len() == rules.capacity() {
            rules.reserve_exact(rules.len().max(1));
        }
        rules.insert(at, rule);
        self.lines.0[table][index].insert(at, number);
        Ok(())
    }

    fn current_table(&self, column: usize) -> Result<usize, Fault> {
        self.table.ok_or_else(|| Fault::new(column, "outside of a table: a line `*filter` or the like must come first"))
    }

    /// Returns the chain of a rule: the last one, a declared one, or a built-in one.
    fn chain_of_rule(&mut self, name: &str, column: usize) -> Result<(usize, usize), Fault> {
        let table = self.current_table(column)?;
        if let Some(last) = self.last.filter(|(_, index)| *self.rules.tables[table].chains[*index].name == *name) {
            return Ok(last);
        }
        let builtin = self.rules.tables[table].name.builtin_chains().contains(&name);
        let index = match self.chains[table].get(name) {
            Some(index) => *index,
            None if builtin => {
                self.chain_or_new(name, column)?.policy = Some(Policy::Accept);
                self.chains[table].len() - 1
            }
            None => return Err(Fault::new(column, format!("chain `{name}` is not declared"))),
        };
        self.last = Some((table, index));
        Ok((table, index))
    }

    fn chain_or_new(&mut self, name: &str, column: usize) -> Result<&mut Chain, Fault> {
        let table = self.current_table(column)?;
        if name.is_empty() {
            return Err(Fault::new(column, "a chain without a name"));
        }
        let chains = &mut self.rules.tables[table].chains;
        let index = match self.chains[table].get(name) {
            Some(index) => *index,
            None => {
                let chain = Chain::user(name);
                self.chains[table].insert(chain.name.clone(), chains.len());
                self.lines.0[table].push(Vec::new());
                chains.push(chain);
                chains.len() - 1
            }
        };
        Ok(&mut chains[index])
    }

    fn clear(&mut self, name: &str, column: usize) -> Result<(), Fault> {
        let (table, index) = self.chain_of_rule(name, column)?;
        self.rules.tables[table].chains[index].rules.clear();
        self.lines.0[table][index].clear();
        Ok(())
    }

    fn remove(&mut self, name: &str, column: usize) -> Result<(), Fault> {
        let (table, index) = self.chain_of_rule(name, column)?;
        self.rules.tables[table].chains.remove(index);
        self.lines.0[table].remove(index);
        self.chains[table].remove(name);
        self.chains[table].values_mut().filter(|other| **other > index).for_each(|other| *other -= 1);
        self.last = None;
        Ok(())
    }
}

/// The policy of a chain. Only built-in chains have one; iptables-restore of iptables-nft silently ignores others.
fn policy_of(word: &str, chain: &str) -> Result<Option<Policy>, String> {
    let policy = match word {
        "ACCEPT" => Policy::Accept,
        "DROP" => Policy::Drop,
        "-" => return Ok(None),
        _ => return Err(format!("unknown policy `{word}`")),
    };
    match Hook::ALL.iter().any(|hook| hook.as_str() == chain) {
        true => Ok(Some(policy)),
        false => Err(format!(
            "`{chain}` is not a built-in chain, so it has no policy: declare it as `:{chain} -` and append a rule `-j {word}`"
        )),
    }
}

fn counters_of(text: &str) -> Option<Counters> {
    let (packets, bytes) = text.split_once(':')?;
    Some(Counters { packets: packets.parse().ok()?, bytes: bytes.parse().ok()? })
}

#[cfg(test)]
mod tests;
