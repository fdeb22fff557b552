//! YAML with the place of every value.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::input::{Diagnostic, Label, Span};

/// A range of text on one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Line, from 1.
    pub(crate) line: u32,
    /// Column in characters, from 1.
    pub(crate) column: u32,
    /// Characters; at least one.
    pub(crate) length: u32,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Its place; for a list or map, the first line.
    pub(crate) mark: Mark,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Whether an invalid value in it was removed.
    pub(crate) pruned: bool,
}

/// The three kinds of YAML values.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A string, number, truth value or null.
    Scalar {
        /// The text without quotes; short ones are shared.
        text: Arc<str>,
        /// Whether it is a plain scalar, which may be other than a string.
        plain: bool,
        /// Whether it is a literal block scalar (`|`), whose lines are those of the file without indentation.
        block: bool,
    },
    /// A list.
    List(Box<[Arc<Node>]>),
    /// A map, in the order of the text.
    Map(Box<[Entry]>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key; keys of the same name share their text.
    pub(crate) name: Arc<str>,
    /// The place of the key.
    pub(crate) mark: Mark,
    /// The value.
    pub(crate) value: Arc<Node>,
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The value of a key.
    Field(String),
    /// The item of a list, from 0.
    Item(usize),
}

impl Node {
    /// Returns a missing value at the start of a file.
    pub(crate) fn empty() -> Self {
        let mark = Mark { line: 1, column: 1, length: 1 };
        Self { mark, kind: Kind::Scalar { text: "".into(), plain: true, block: false }, pruned: false }
    }

    /// Returns its number of values, including itself, with aliases expanded.
    pub(crate) fn size(&self) -> u32 {
        let below: u32 = match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::List(items) => items.iter().map(|item| item.size()).sum(),
            Kind::Map(entries) => entries.iter().map(|entry| entry.value.size()).sum(),
        };
        1 + below
    }

    /// Returns the value of a key; `None` if this is not a map or has no such key.
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| &*entry.name == name),
            _ => None,
        }
    }

    /// Returns the items of a list; none for other values.
    pub(crate) fn items(&self) -> &[Arc<Node>] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Removes the value at a path; for a path that ends early, the last value on it.
    pub(crate) fn prune(node: &mut Arc<Self>, path: &[Hop]) {
        let Some((step, rest)) = path.split_first() else { return };
        let node = Arc::make_mut(node);
        node.pruned = true;
        match (&mut node.kind, step) {
            (Kind::Map(entries), Hop::Field(name)) => {
                let Some(at) = entries.iter().position(|entry| &*entry.name == name) else { return };
                if rest.is_empty() {
                    without(entries, at);
                } else {
                    Self::prune(&mut entries[at].value, rest);
                }
            }
            (Kind::List(items), Hop::Item(at)) if *at < items.len() => {
                if rest.is_empty() {
                    without(items, *at);
                } else {
                    Self::prune(&mut items[*at], rest);
                }
            }
            _ => {}
        }
    }
}

/// Removes one item.
fn without<T>(items: &mut Box<[T]>, at: usize) {
    let mut rest = std::mem::take(items).into_vec();
    rest.remove(at);
    *items = rest.into_boxed_slice();
}

/// A place in a tree, for messages. Steps to missing values do not move, so there is always something to point at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    file: &'a Path,
    node: &'a Node,
    key: Option<Mark>,
}

impl<'a> At<'a> {
    /// Returns the root of a file's tree.
    pub(crate) fn root(file: &'a Path, node: &'a Node) -> Self {
        Self { file, node, key: None }
    }

    /// Returns the value of a field.
    pub(crate) fn field(self, name: &str) -> Self {
        match self.node.get(name) {
            Some(entry) => Self { node: &entry.value, key: Some(entry.mark), ..self },
            None => self,
        }
    }

    /// Returns whether there is such a field.
    pub(crate) fn has(self, name: &str) -> bool {
        self.node.get(name).is_some()
    }

    /// Returns the value of the first of these fields that exists.
    pub(crate) fn first_of(self, names: &[&str]) -> Self {
        names.iter().find(|name| self.has(name)).map_or(self, |name| self.field(name))
    }

    /// Returns an item of a list; a single value counts as a list of one.
    pub(crate) fn item(self, index: usize) -> Self {
        match self.node.items().get(index) {
            Some(node) => Self { node, key: None, ..self },
            None => self,
        }
    }

    /// Returns the first value inside this one that parses as `value`, such as an address in a list or anywhere in an object.
    pub(crate) fn reading<T: FromStr + PartialEq>(self, value: &T) -> Option<Self> {
        match &self.node.kind {
            Kind::Scalar { text, .. } => (text.trim().parse::<T>().ok().as_ref() == Some(value)).then_some(self),
            Kind::List(items) => items.iter().find_map(|node| Self { node, key: None, ..self }.reading(value)),
            Kind::Map(entries) => {
                let of = |entry: &'a Entry| Self { node: &entry.value, key: Some(entry.mark), ..self };
                entries.iter().find_map(|entry| of(entry).reading(value))
            }
        }
    }

    /// Returns the value at a path like `spec.ports[0].nodePort`.
    pub(crate) fn walk(self, path: &str) -> Self {
        parse_path(path).iter().fold(self, |at, step| match step {
            Hop::Field(name) => at.field(name),
            Hop::Item(index) => at.item(*index),
        })
    }

    /// Returns the key of this value, or the value itself if it has none.
    pub(crate) fn key(self) -> Key<'a> {
        Key(self)
    }

    /// Returns whether an invalid value here was reported and removed, which may be a missing value.
    pub(crate) fn is_pruned(self) -> bool {
        self.node.pruned
    }

    /// Returns the tree below.
    pub(crate) fn node(self) -> &'a Node {
        self.node
    }

    /// The file.
    pub(crate) fn file(self) -> &'a Path {
        self.file
    }

    /// Returns the place as a plain value.
    pub(crate) fn span(self) -> Span {
        self.span_of(self.node.mark)
    }

    /// Returns the place of this value's key, or of the value itself if it has none.
    pub(crate) fn key_span(self) -> Span {
        self.span_of(self.key.unwrap_or(self.node.mark))
    }

    /// Returns the place of a literal block scalar's first line, and the column at which its lines start. For other texts, returns their
    /// place and `None`: their lines are not those of the file.
    pub(crate) fn text_span(self) -> (Span, Option<usize>) {
        let span = self.span();
        match &self.node.kind {
            Kind::Scalar { block: true, text, .. } => {
                // The mark is at the first letter, which empty lines may precede.
                let empty = text.chars().take_while(|letter| *letter == '\n').count();
                let start = span.column;
                (Span { line: span.line.saturating_sub(empty), column: 1, ..span }, Some(start))
            }
            _ => (span, None),
        }
    }

    /// Returns a label on this place.
    pub(crate) fn label(self, text: impl Into<String>) -> Label {
        Label { span: self.span(), length: self.node.mark.length as usize, text: text.into() }
    }

    fn span_of(self, mark: Mark) -> Span {
        Span { file: self.file.to_owned(), line: mark.line as usize, column: mark.column as usize }
    }
}

/// The key of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'a>(At<'a>);

/// A place that errors can be reported at.
pub(crate) trait Place {
    /// Creates an error at this place.
    fn error(self, message: impl Into<String>) -> Diagnostic;
}

impl Place for At<'_> {
    fn error(self, message: impl Into<String>) -> Diagnostic {
        diagnostic(self.span(), self.node.mark, message.into())
    }
}

impl Place for Key<'_> {
    fn error(self, message: impl Into<String>) -> Diagnostic {
        let mark = self.0.key.unwrap_or(self.0.node.mark);
        diagnostic(self.0.span_of(mark), mark, message.into())
    }
}

fn diagnostic(span: Span, mark: Mark, message: String) -> Diagnostic {
    Diagnostic { span, length: mark.length as usize, message, help: None, also: None }
}

impl Diagnostic {
    /// Adds the help.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a related place.
    pub(crate) fn also(mut self, label: Label) -> Self {
        self.also = Some(label);
        self
    }
}

/// Parses a path like `spec.ports[0].nodePort`.
fn parse_path(path: &str) -> Vec<Hop> {
    let mut steps = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let mut pieces = part.split('[');
        if let Some(name) = pieces.next().filter(|name| !name.is_empty()) {
            steps.push(Hop::Field(name.to_owned()));
        }
        steps.extend(pieces.filter_map(|piece| piece.trim_end_matches(']').parse().ok()).map(Hop::Item));
    }
    steps
}
