//! The parser for the output of `nft list ruleset`, with or without `-j`.
//!
//! nft's own text has no grammar that is written down, and is what people paste: [`text`]. Its JSON has one
//! (libnftables-json(5)): [`json`] is its shape, [`objects`] reads tables, sets and chains, and [`expression`] makes text of
//! what rules and elements have. [`rule`] reads rules of both.

mod expression;
mod json;
mod objects;
mod rule;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use super::ast::{Ruleset, Table};
use crate::cluster::Family;

/// The default size of a dynamic set (`NFT_DYNSET_SIZE` is the kernel's, 65535).
const DYNAMIC_SIZE: u32 = 65_535;

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// kube-proxy's tables.
    pub rules: Ruleset,
    /// The other tables, of which no more is read.
    pub others: Vec<OtherTable>,
    /// What all tables of nft's own text are called there, read or not.
    pub names: Vec<TableName>,
    /// The lines of rules and elements.
    pub lines: SourceLines,
}

/// Tables that were not read from text, and so have no lines.
impl From<Ruleset> for Parsed {
    fn from(rules: Ruleset) -> Self {
        let names = rules.tables.iter().map(|table| TableName {
            family: super::text::family(table.family).to_owned(),
            name: table.name.to_string(),
        });
        Self { names: names.collect(), rules, ..Self::default() }
    }
}

/// The lines that rules and elements were read from, laid out as their rule set is. JSON has none: it is one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceLines(Vec<Lines>);

/// The lines of a table's sets and chains, each with those of what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Lines {
    sets: Vec<(usize, Vec<usize>)>,
    chains: Vec<(usize, Vec<usize>)>,
}

impl Parsed {
    /// Shifts all lines, for a text that follows this many others.
    pub fn behind(mut self, lines: usize) -> Self {
        for of_table in &mut self.lines.0 {
            for (first, others) in of_table.sets.iter_mut().chain(&mut of_table.chains) {
                std::iter::once(first).chain(others).for_each(|line| *line += lines);
            }
        }
        self
    }
}

impl SourceLines {
    /// The line, from 1, of a rule given by the positions of its table, its chain in that, and itself in that.
    pub fn rule(&self, table: usize, chain: usize, rule: usize) -> Option<usize> {
        self.0.get(table)?.chains.get(chain)?.1.get(rule).copied()
    }

    /// The line where a chain starts.
    pub fn chain(&self, table: usize, chain: usize) -> Option<usize> {
        Some(self.0.get(table)?.chains.get(chain)?.0)
    }

    /// The line of an element given by the positions of its table, its set in that, and itself in that.
    pub(crate) fn element(&self, table: usize, set: usize, element: usize) -> Option<usize> {
        self.0.get(table)?.sets.get(set)?.1.get(element).copied()
    }

    /// The line where a set starts.
    pub fn set(&self, table: usize, set: usize) -> Option<usize> {
        Some(self.0.get(table)?.sets.get(set)?.0)
    }
}

/// What a table is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// nft's word: `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`.
    pub family: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family, self.name)
    }
}

impl TableName {
    /// Whether a table was read from this one: one of `inet` becomes one of each family.
    pub fn is_of(&self, table: &Table) -> bool {
        *self.name == *table.name && (self.family == "inet" || self.family == super::text::family(table.family))
    }
}

/// A table that is not kube-proxy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTable {
    /// nft's word: `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`.
    pub family: String,
    /// Its name.
    pub name: String,
    /// How many rules it has.
    pub rules: usize,
}

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    /// Where.
    pub place: ErrorPlace,
    /// What is wrong, as a lower-case fragment.
    pub message: String,
}

/// Where something cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorPlace {
    /// At a place of the text.
    At {
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters; in bytes where JSON is broken.
        column: usize,
    },
    /// In an object of the JSON: the table, and what of it.
    Object(String),
}

impl fmt::Display for ErrorPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { line, column } => write!(f, "line {line}, column {column}"),
            Self::Object(object) => f.write_str(object),
        }
    }
}

impl ParseError {
    /// The line and column in the text, from 1, and what is wrong. An error of which only the JSON object is known is reported at the first
    /// character, with the object.
    pub fn in_text(&self) -> ((usize, usize), String) {
        match &self.place {
            ErrorPlace::At { line, column } => ((*line, (*column).max(1)), self.message.clone()),
            ErrorPlace::Object(_) => ((1, 1), self.to_string()),
        }
    }

    /// Errors at bytes of a text, in their order.
    fn at_bytes(text: &str, faults: Vec<(usize, String)>) -> Vec<Self> {
        let (mut line, mut start) = (1, 0);
        let place = |(at, message): (usize, String)| {
            let new = text.get(start..at).unwrap_or_default();
            line += new.bytes().filter(|byte| *byte == b'\n').count();
            start = new.rfind('\n').map_or(start, |newline| start + newline + 1);
            let column = text.get(start..at).unwrap_or_default().chars().count() + 1;
            Self { place: ErrorPlace::At { line, column }, message }
        };
        faults.into_iter().map(place).collect()
    }
}

/// Reads all tables of families `ip`, `ip6` and `inet`, kube-proxy's and others, from nft's own text. A table of `inet` becomes one of each
/// family. What writes of packets (`log`) is left out as counters are; for the rest see [`parse()`].
///
/// # Errors
///
/// All rules that nft cannot have printed, up to the first other error: also a set or a chain that these tables have no room for.
pub fn parse_all(text: &str) -> Result<Parsed, Vec<ParseError>> {
    text::parse(text, text::Scope::All)
}

/// Reads the output of `nft list ruleset`, of `nft -j list ruleset` if the text starts with a brace, or what
/// [`super::print_sync`] writes for `nft -f`.
///
/// kube-proxy's tables are those called `kube-proxy` of family `ip` and `ip6`. An expression of their rules that is not
/// modelled is kept as text ([`super::Condition::Other`], [`super::Statement::Other`]), in nft's own text with all
/// that follows in the rule. Counters of rules are left out, and
/// so are a table's named counters and the like: a rule that uses one is kept as text. The time that an
/// element has left is left out too. nft before 1.0.8 prints no comments of tables and chains in JSON.
///
/// # Errors
///
/// Text that is neither; and every set, element, chain and rule that the tables have no room for. Of nft's own text, all
/// rules that nft cannot have printed, up to the first other error.
pub fn parse(text: &str) -> Result<Parsed, Vec<ParseError>> {
    if !text.trim_start().starts_with('{') {
        return text::parse(text, text::Scope::KubeProxy);
    }
    objects::parse(text)
}

fn family_of(word: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| super::text::family(*family) == word)
}
