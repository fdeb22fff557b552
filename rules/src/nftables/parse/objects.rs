//! Parsing of tables, sets and chains from nft's JSON.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Document, Object, OneOrMore};
use super::{ErrorPlace, OtherTable, ParseError, Parsed, expression, family_of, rule, text};
use crate::cluster::Family;
use crate::nftables::{BaseChain, Chain, Datatype, Dynamic, Set, SetKind, TABLE, Table};
use crate::walk::Hook;

/// The newest supported version of nft's JSON.
const SCHEMA: u32 = 1;

/// Parses the output of `nft -j list ruleset`.
pub(super) fn parse(text: &str) -> Result<Parsed, Vec<ParseError>> {
    let document: Document<'_> = serde_json::from_str(text).map_err(|error| vec![syntax(&error)])?;
    plain_strings(text)?;
    let mut reader = Reader::default();
    document.nftables.iter().for_each(|object| reader.object(object));
    reader.parsed.rules.tables.iter_mut().for_each(Table::find_dynamic_sets);
    if reader.errors.is_empty() { Ok(reader.parsed) } else { Err(reader.errors) }
}

fn syntax(error: &serde_json::Error) -> ParseError {
    let (line, column, message) = (error.line(), error.column(), error.to_string());
    let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
    ParseError { place: ErrorPlace::At { line, column }, message }
}

/// Rejects strings with a quote or a control character, which cannot be written in nft's own text, as it has no escapes. JSON escapes them,
/// so a document without a backslash has none.
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

/// Returns whether nft accepts a name without quotes.
fn is_name(name: &str) -> bool {
    let is_sign = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') && name.chars().all(is_sign)
}

#[derive(Default)]
struct Reader {
    parsed: Parsed,
    /// The positions of chains in their table, by family and name.
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
            let message = format!("version {} of nft's JSON is not supported, only {SCHEMA}", info.json_schema_version);
            self.reject("metainfo".to_owned(), message);
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
            self.reject(place, "an object of this kind is not supported in kube-proxy's table");
        }
    }

    fn reject(&mut self, place: String, message: impl Into<String>) {
        self.errors.push(ParseError { place: ErrorPlace::Object(place), message: message.into() });
    }

    fn table(&mut self, table: &json::Table) {
        let json::Table { family, name, comment, flags } = table;
        if flags.is_some_and(|flags| flags.get().contains("\"dormant\"")) && name == TABLE {
            let place = format!("table {family} {name}");
            self.reject(place, "the table is dormant: the kernel evaluates none of its chains");
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

    /// Returns one of kube-proxy's tables; reports an error if there is no such table.
    fn own_table(&mut self, family: &str, table: &str, place: &dyn Fn() -> String) -> Option<&mut Table> {
        match self.owner(family, table) {
            Owner::Proxy(family) => self.parsed.rules.tables.iter_mut().find(|table| table.family == family),
            Owner::Other(_) => None,
            Owner::Undeclared => {
                self.reject(place(), "there is no such table");
                None
            }
        }
    }

    fn set(&mut self, set: &json::Set<'_>, kind: SetKind) {
        let place = || format!("table {} {}, {} {}", set.family, set.table, kind.as_str(), set.name);
        if !is_name(&set.name) {
            return self.reject(place(), "nft cannot read this name");
        }
        let Some(table) = self.own_table(&set.family, &set.table, &place) else { return };
        match read_set(set, kind) {
            Ok(set) => table.sets.push(set),
            Err(message) => self.reject(place(), message),
        }
    }

    fn chain(&mut self, chain: &json::Chain<'_>) {
        let place = || format!("table {} {}, chain {}", chain.family, chain.table, chain.name);
        if !is_name(&chain.name) {
            return self.reject(place(), "nft cannot read this name");
        }
        let Some(table) = self.own_table(&chain.family, &chain.table, &place) else { return };
        match base_chain(chain) {
            Ok(base) => {
                let comment = chain.comment.as_deref().map(Into::into);
                let (family, position) = (table.family, table.chains.len());
                table.chains.push(Chain { base, comment, ..Chain::regular(chain.name.as_str().into()) });
                self.chains.insert((family, chain.name.clone()), position);
            }
            Err(message) => self.reject(place(), message),
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
            Some(chain) => chain.rules.push(rule::from_json(&rule.expr, rule.comment.as_deref())),
            None => self.reject(place(), "there is no such chain"),
        }
    }
}

fn read_set(set: &json::Set<'_>, kind: SetKind) -> Result<Set, String> {
    let names: OneOrMore<String> =
        typed(set.key).ok_or_else(|| format!("keys of type {} are not known", set.key.get()))?;
    let key = names
        .as_slice()
        .iter()
        .map(|name| Datatype::of(name).ok_or_else(|| format!("keys of type `{name}` are not known")));
    let key: Vec<Datatype> = key.collect::<Result<_, _>>()?;
    if let Some(data) = set.map.filter(|data| typed(data) != Some("verdict")) {
        return Err(format!("a map to {} is not known, only to verdicts", data.get()));
    }
    let element = |raw: &&RawValue| {
        let element = expression::element(raw.get()).and_then(|element| text::element(&element, &key, kind));
        element.ok_or_else(|| format!("element {} is not known", raw.get()))
    };
    Ok(Set {
        name: set.name.as_str().into(),
        kind,
        comment: set.comment.as_deref().map(Into::into),
        // nft 1.0.6 does not print the flag `dynamic`; see `Table::find_dynamic_sets` for sets without a timeout.
        dynamic: set.timeout.map(|timeout| Dynamic::of(set.size, Some(timeout))),
        elements: set.elem.iter().map(element).collect::<Result<_, _>>()?,
        key,
    })
}

/// Parses JSON as a type, if possible.
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
