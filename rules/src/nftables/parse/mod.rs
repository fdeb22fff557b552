//! The parser for the output of `nft list ruleset`, with or without `-j`.
//!
//! nft's own text, which people paste, has no documented grammar: [`text`] parses it. Its JSON has one (libnftables-json(5)): [`json`] is
//! its shape, [`objects`] reads tables, sets and chains, and [`expression`] converts rules and elements to text. [`rule`] parses rules of
//! both.

mod expression;
mod json;
mod objects;
mod rule;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ast::{Ruleset, Table};
use crate::cluster::Family;

/// Parsed tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// kube-proxy's tables.
    pub rules: Ruleset,
    /// The other tables, with only name and number of rules.
    pub others: Vec<OtherTable>,
    /// The names of all tables in nft's own text, parsed or not.
    pub names: Vec<TableName>,
    /// The lines of rules and elements.
    pub lines: SourceLines,
}

/// Tables that were not parsed from text have no lines.
impl From<Ruleset> for Parsed {
    fn from(rules: Ruleset) -> Self {
        let names = rules.tables.iter().map(|table| TableName {
            family: super::text::family(table.family).to_owned(),
            name: table.name.to_string(),
        });
        Self { names: names.collect(), rules, ..Self::default() }
    }
}

/// The lines of rules and elements, in the layout of their rule set. JSON has none: it is one line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceLines(Vec<Lines>);

/// The lines of a table's sets and chains, each with the lines of its content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Lines {
    sets: Vec<(usize, Vec<usize>)>,
    chains: Vec<(usize, Vec<usize>)>,
    /// How many `log` statements were omitted.
    logs: usize,
}

impl Parsed {
    /// Returns kube-proxy's tables of a family, with their lines.
    #[must_use]
    pub fn for_family(self, family: Family) -> Self {
        let Self { rules, lines, .. } = self;
        let mut lines = lines.0.into_iter();
        // Tables that were not parsed from text have no lines.
        let tables = rules.tables.into_iter().map(|table| (table, lines.next()));
        let (tables, lines): (Vec<Table>, Vec<Option<Lines>>) =
            tables.filter(|(table, _)| table.family == family).unzip();
        let lines = lines.into_iter().flatten().collect();
        Self { lines: SourceLines(lines), ..Ruleset { tables }.into() }
    }

    /// Shifts all lines, for a text that follows this many others.
    pub fn shifted(mut self, lines: usize) -> Self {
        for of_table in &mut self.lines.0 {
            for (first, others) in of_table.sets.iter_mut().chain(&mut of_table.chains) {
                std::iter::once(first).chain(others).for_each(|line| *line += lines);
            }
        }
        self
    }
}

impl SourceLines {
    /// Returns the line, from 1, of a rule, given the positions of its table, its chain and itself.
    pub fn rule(&self, table: usize, chain: usize, rule: usize) -> Option<usize> {
        self.0.get(table)?.chains.get(chain)?.1.get(rule).copied()
    }

    /// Returns how many `log` statements were omitted from the rules.
    pub fn logs(&self) -> usize {
        self.0.iter().map(|own| own.logs).sum()
    }

    /// Returns the line where a chain starts.
    pub fn chain(&self, table: usize, chain: usize) -> Option<usize> {
        Some(self.0.get(table)?.chains.get(chain)?.0)
    }

    /// Returns the line of an element, given the positions of its table, its set and itself.
    pub fn element(&self, table: usize, set: usize, element: usize) -> Option<usize> {
        self.0.get(table)?.sets.get(set)?.1.get(element).copied()
    }

    /// Returns whether these can be the lines of tables: they have as many sets, chains, elements and rules.
    #[doc(hidden)]
    pub fn fit(&self, rules: &Ruleset) -> bool {
        let counts = |all: &[(usize, Vec<usize>)]| all.iter().map(|(_, own)| own.len()).collect::<Vec<_>>();
        let of_lines = self.0.iter().map(|own| (counts(&own.sets), counts(&own.chains)));
        let of_table = |table: &Table| {
            let sets = table.sets.iter().map(|set| set.elements.len()).collect::<Vec<_>>();
            (sets, table.chains.iter().map(|chain| chain.rules.len()).collect::<Vec<_>>())
        };
        of_lines.eq(rules.tables.iter().map(of_table))
    }

    /// Returns the line where a set starts.
    pub fn set(&self, table: usize, set: usize) -> Option<usize> {
        Some(self.0.get(table)?.sets.get(set)?.0)
    }
}

/// The name of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The family: `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`.
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
    /// Returns whether a table was parsed from this one: an `inet` table becomes one of each family.
    pub fn is_of(&self, table: &Table) -> bool {
        *self.name == *table.name && (self.family == "inet" || self.family == super::text::family(table.family))
    }
}

/// A table that is not kube-proxy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTable {
    /// The family: `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`.
    pub family: String,
    /// Its name.
    pub name: String,
    /// The number of rules.
    pub rules: usize,
}

/// Text that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ParseError {
    /// Where.
    pub place: ErrorPlace,
    /// What is wrong, as a lower-case fragment.
    pub message: String,
}

/// The place of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorPlace {
    /// At a place of the text.
    At {
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters; in bytes where JSON is broken.
        column: usize,
    },
    /// In an object of the JSON: the table, and the object in it.
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
    /// Returns line and column in the text, from 1, and the message. If only the JSON object is known, the error is reported at the first
    /// character, with the object.
    pub fn in_text(&self) -> ((usize, usize), String) {
        match &self.place {
            ErrorPlace::At { line, column } => ((*line, (*column).max(1)), self.message.clone()),
            ErrorPlace::Object(_) => ((1, 1), self.to_string()),
        }
    }

    /// Creates errors from byte offsets in a text, in order.
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

/// Parses all tables of families `ip`, `ip6` and `inet`, kube-proxy's and others, from nft's own text. An `inet` table becomes one of each
/// family. `log` statements are omitted, as counters are; for the rest see [`parse()`].
///
/// # Errors
///
/// All rules that nft cannot have printed, up to the first other error, such as a set or chain that is not supported.
pub fn parse_all(text: &str) -> Result<Parsed, Vec<ParseError>> {
    text::parse(text, text::Scope::All)
}

/// Parses the output of `nft list ruleset`, of `nft -j list ruleset` if the text starts with a brace, or of [`super::print_sync`].
///
/// kube-proxy's tables are those named `kube-proxy` of family `ip` and `ip6`. An expression that is not modelled is kept as text
/// ([`super::Condition::Other`], [`super::Statement::Other`]), in nft's own text with the rest of the rule. Counters of rules are omitted,
/// and so are named counters and similar objects of a table: a rule that uses one is kept as text. Expiry times of elements are omitted
/// too. nft before 1.0.8 prints no comments of tables and chains in JSON.
///
/// # Errors
///
/// Text in neither format, and every set, element, chain and rule that is not supported. In nft's own text, all rules that nft cannot have
/// printed, up to the first other error.
pub fn parse(text: &str) -> Result<Parsed, Vec<ParseError>> {
    if !text.trim_start().starts_with('{') {
        return text::parse(text, text::Scope::KubeProxy);
    }
    objects::parse(text)
}

fn family_of(word: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| super::text::family(*family) == word)
}
