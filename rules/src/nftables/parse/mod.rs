//! From what `nft list ruleset` shows to tables, with `-j` or without.
//!
//! nft's own text has no grammar that is written down, and is what people paste: [`text`]. Its JSON has one
//! (libnftables-json(5)): [`json`] is its shape; sets and chains are read here, elements in [`values`] and rules in [`rule`].

mod json;
mod rule;
#[cfg(test)]
mod tests;
mod text;
mod values;

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::json::{Document, Object, OneOrMore, Value};
use super::TABLE;
use super::ast::{BaseChain, Chain, Datatype, Dynamic, Ruleset, Set, SetKind, Table};
use crate::cluster::Family;
use crate::walk::Hook;

/// The newest version of nft's JSON that is understood.
const SCHEMA: u32 = 1;

/// How many keys a dynamic set takes where none is said (`NFT_DYNSET_SIZE` is the kernel's, 65535).
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
            family: super::print::family(table.family).to_owned(),
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
    pub fn element(&self, table: usize, set: usize, element: usize) -> Option<usize> {
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
        *self.name == *table.name && (self.family == "inet" || self.family == super::print::family(table.family))
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

    /// A mistake at a byte of a text.
    fn at_byte(text: &str, at: usize, message: String) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Self { place: ErrorPlace::At { line, column: before[start..].chars().count() + 1 }, message }
    }
}

/// Reads all tables of families `ip`, `ip6` and `inet`, whoever made them, from nft's own text. A table of `inet` becomes one of each
/// family. What writes of packets (`log`) is left out as counters are; for the rest see [`parse()`].
///
/// # Errors
///
/// The first mistake: also a set or a chain that these tables have no room for.
pub fn parse_all(text: &str) -> Result<Parsed, Vec<ParseError>> {
    text::parse(text, text::Scope::All)
}

/// Reads what `nft list ruleset` shows, or `nft -j list ruleset` where the text begins with a brace; or what
/// [`super::print_sync`] writes for `nft -f`.
///
/// kube-proxy's tables are those called `kube-proxy` of family `ip` and `ip6`. An expression of their rules that is not
/// modelled is kept as text ([`super::Condition::Other`], [`super::Statement::Other`]), in nft's own text with all
/// that follows in the rule. Counters of rules are left out, and
/// so are a table's named counters and the like: a rule that uses one is kept as said. The time that an
/// element has left is left out too. nft before 1.0.8 shows no comments of tables and chains in JSON.
///
/// # Errors
///
/// Text that is neither; and every set, element, chain and rule that the tables have no room for. Of nft's own text, the
/// first mistake.
pub fn parse(text: &str) -> Result<Parsed, Vec<ParseError>> {
    if !text.trim_start().starts_with('{') {
        return text::parse(text, text::Scope::KubeProxy);
    }
    let document: Document<'_> = serde_json::from_str(text).map_err(|error| vec![syntax(&error)])?;
    plain_strings(text)?;
    let mut reader = Reader::default();
    document.nftables.iter().for_each(|object| reader.object(object));
    if reader.errors.is_empty() { Ok(reader.parsed) } else { Err(reader.errors) }
}

fn syntax(error: &serde_json::Error) -> ParseError {
    let (line, column, message) = (error.line(), error.column(), error.to_string());
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
    ParseError { place: ErrorPlace::At { line, column }, message }
}

/// Refuses strings that could not be written in nft's own text, which has no escapes: with a quote or a control character in them. In JSON
/// these are escaped, so texts without a backslash have none.
fn plain_strings(text: &str) -> Result<(), Vec<ParseError>> {
    if !text.contains('\\') {
        return Ok(());
    }
    let document: serde_json::Value = serde_json::from_str(text).map_err(|error| vec![syntax(&error)])?;
    let mut values = vec![&document];
    while let Some(value) = values.pop() {
        match value {
            serde_json::Value::String(text) if text.contains(|letter: char| letter == '"' || letter.is_control()) => {
                let message = "it has a quote or a control character, which nft cannot read".to_owned();
                return Err(vec![ParseError { place: ErrorPlace::Object(format!("text {text:?}")), message }]);
            }
            serde_json::Value::Array(list) => values.extend(list),
            serde_json::Value::Object(fields) => values.extend(fields.values()),
            _ => {}
        }
    }
    Ok(())
}

/// Whether nft takes a name without quotes. Any other could end what it names.
fn is_name(name: &str) -> bool {
    let is_sign = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') && name.chars().all(is_sign)
}

#[derive(Default)]
struct Reader {
    parsed: Parsed,
    /// By family and name: the positions of chains in their table.
    chains: HashMap<(Family, String), usize>,
    errors: Vec<ParseError>,
}

/// The table of an object.
enum Owner {
    /// One of kube-proxy's tables.
    Proxy(Family),
    /// Another table, by its position.
    Other(usize),
    /// A table that was not declared.
    Undeclared,
}

impl Reader {
    fn object(&mut self, object: &Object<'_>) {
        if let Some(info) = &object.metainfo
            && info.json_schema_version > SCHEMA
        {
            let message = format!("version {} of nft's JSON is not known, only {SCHEMA}", info.json_schema_version);
            self.refuse("metainfo".to_owned(), message);
        }
        if let Some(table) = &object.table {
            self.table(table);
        }
        for (set, kind) in [(&object.set, SetKind::Set), (&object.map, SetKind::VerdictMap)] {
            if let Some(set) = set {
                self.set(set, kind);
            }
        }
        if let Some(chain) = &object.chain {
            self.chain(chain);
        }
        if let Some(rule) = &object.rule {
            self.rule(rule);
        }
        if let Some(named) = &object.named
            && named.table == TABLE
        {
            let place = format!("table {} {}, {}", named.family, named.table, named.name);
            self.refuse(place, "an object of this kind is not supported in kube-proxy's table");
        }
    }

    fn refuse(&mut self, place: String, message: impl Into<String>) {
        self.errors.push(ParseError { place: ErrorPlace::Object(place), message: message.into() });
    }

    fn table(&mut self, table: &json::Table) {
        let json::Table { family, name, comment, flags } = table;
        if flags.is_some_and(|flags| flags.get().contains("\"dormant\"")) && name == TABLE {
            let place = format!("table {family} {name}");
            self.refuse(place, "the table is dormant: the kernel asks none of its chains");
        }
        match family_of(family).filter(|_| name == TABLE) {
            Some(family) => self.parsed.rules.tables.push(Table {
                family,
                name: name.as_str().into(),
                comment: comment.as_deref().map(Into::into),
                sets: Vec::new(),
                chains: Vec::new(),
            }),
            None => {
                self.parsed.others.push(OtherTable { family: family.clone(), name: name.clone(), rules: 0 });
            }
        }
    }

    fn owner(&self, family: &str, table: &str) -> Owner {
        let of_proxy = family_of(family).filter(|_| table == TABLE);
        if let Some(family) = of_proxy.filter(|family| self.parsed.rules.table(*family).is_some()) {
            return Owner::Proxy(family);
        }
        let mut others = self.parsed.others.iter();
        others.position(|other| other.family == family && other.name == table).map_or(Owner::Undeclared, Owner::Other)
    }

    /// One of kube-proxy's tables; an error where there is no such table at all.
    fn own_table(&mut self, family: &str, table: &str, place: &dyn Fn() -> String) -> Option<&mut Table> {
        match self.owner(family, table) {
            Owner::Proxy(family) => self.parsed.rules.tables.iter_mut().find(|table| table.family == family),
            Owner::Other(_) => None,
            Owner::Undeclared => {
                self.refuse(place(), "there is no such table");
                None
            }
        }
    }

    fn set(&mut self, set: &json::Set<'_>, kind: SetKind) {
        let place = || format!("table {} {}, {} {}", set.family, set.table, kind.as_str(), set.name);
        if !is_name(&set.name) {
            return self.refuse(place(), "nft cannot read this name");
        }
        let Some(table) = self.own_table(&set.family, &set.table, &place) else { return };
        match read_set(set, kind) {
            Ok(set) => table.sets.push(set),
            Err(message) => self.refuse(place(), message),
        }
    }

    fn chain(&mut self, chain: &json::Chain<'_>) {
        let place = || format!("table {} {}, chain {}", chain.family, chain.table, chain.name);
        if !is_name(&chain.name) {
            return self.refuse(place(), "nft cannot read this name");
        }
        let Some(table) = self.own_table(&chain.family, &chain.table, &place) else { return };
        match base_chain(chain) {
            Ok(base) => {
                let comment = chain.comment.as_deref().map(Into::into);
                let (family, position) = (table.family, table.chains.len());
                table.chains.push(Chain { base, comment, ..Chain::regular(chain.name.as_str().into()) });
                self.chains.insert((family, chain.name.clone()), position);
            }
            Err(message) => self.refuse(place(), message),
        }
    }

    fn rule(&mut self, rule: &json::Rule<'_>) {
        let handle = rule.handle.map(|handle| format!(", rule with handle {handle}")).unwrap_or_default();
        let place = || format!("table {} {}, chain {}{handle}", rule.family, rule.table, rule.chain);
        if let Owner::Other(other) = self.owner(&rule.family, &rule.table) {
            self.parsed.others[other].rules += 1;
            return;
        }
        let position = family_of(&rule.family).and_then(|family| self.chains.get(&(family, rule.chain.clone())));
        let position = position.copied();
        let Some(table) = self.own_table(&rule.family, &rule.table, &place) else { return };
        match position.and_then(|position| table.chains.get_mut(position)) {
            Some(chain) => chain.rules.push(rule::rule(&rule.expr, rule.comment.as_deref())),
            None => self.refuse(place(), "there is no such chain"),
        }
    }
}

fn family_of(word: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| super::print::family(*family) == word)
}

fn read_set(set: &json::Set<'_>, kind: SetKind) -> Result<Set, String> {
    let names: OneOrMore<String> =
        typed(set.key).ok_or_else(|| format!("keys of type {} are not known", set.key.get()))?;
    let key = names
        .as_slice()
        .iter()
        .map(|name| values::datatype(name).ok_or_else(|| format!("keys of type `{name}` are not known")));
    let key: Vec<Datatype> = key.collect::<Result<_, _>>()?;
    let is_map = kind == SetKind::VerdictMap;
    if let Some(data) = set.map.filter(|data| typed(data) != Some("verdict")) {
        return Err(format!("a map to {} is not known, only to verdicts", data.get()));
    }
    let element = |raw: &&RawValue| {
        let element = typed::<Value>(raw).and_then(|value| values::element(&value, &key, is_map));
        element.ok_or_else(|| format!("element {} is not known", raw.get()))
    };
    Ok(Set {
        name: set.name.as_str().into(),
        kind,
        comment: set.comment.as_deref().map(Into::into),
        // nft 1.0.6 shows no flag `dynamic`. Only sets that rules add to have times.
        dynamic: set.timeout.map(|timeout| Dynamic { size: set.size.unwrap_or(DYNAMIC_SIZE), timeout }),
        elements: set.elem.iter().map(element).collect::<Result<_, _>>()?,
        key,
    })
}

/// What JSON is, where it is of a type.
fn typed<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

fn base_chain(chain: &json::Chain<'_>) -> Result<Option<BaseChain>, String> {
    let (Some(kind), Some(hook)) = (&chain.kind, &chain.hook) else { return Ok(None) };
    let nat = match kind.as_str() {
        "nat" => true,
        "filter" => false,
        _ => return Err(format!("chains of type `{kind}` are not known")),
    };
    let known = Hook::ALL.into_iter().find(|known| known.lowercase() == hook);
    let hook = known.ok_or_else(|| format!("there is no hook `{hook}` in these tables"))?;
    let priority = chain.prio.and_then(typed).ok_or("it has no priority that is a number")?;
    let drops = match chain.policy.as_deref() {
        None | Some("accept") => false,
        Some("drop") => true,
        Some(other) => return Err(format!("there is no policy `{other}`")),
    };
    Ok(Some(BaseChain { nat, hook, priority, drops }))
}
