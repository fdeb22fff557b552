//! Parsing of text to trees: YAML is parsed once, within limits, and every value keeps its place.
//!
//! `saphyr-parser` gives the events with their places. A tree takes at most about fifty bytes for each byte of its text, and aliases share
//! the value that they refer to; their expansion is limited in advance.

use std::collections::{HashMap, HashSet, hash_map};
use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as Range, Tag};

use super::lines::Lines;
use super::tree::{Entry, Kind, Mark, Node};
use crate::input::{Diagnostic, Label, Span, limits};

/// Parses all documents in a text. Returns the documents and the errors; a syntax error ends parsing, so it is the last, and its document
/// is missing.
pub(crate) fn parse(text: &str, file: &Path) -> (Vec<Arc<Node>>, Vec<Diagnostic>) {
    let mut builder = Builder::new(text, file);
    if text.len() > limits::FILE_BYTES {
        builder.error(
            Mark { line: 1, column: 1, length: 1 },
            format!("the file has {} MiB; at most {} are read", text.len() >> 20, limits::FILE_BYTES >> 20),
            "Split it, or keep only the objects that the scenario needs.",
        );
        return (Vec::new(), builder.errors);
    }
    for event in Parser::new_from_str(text) {
        let result = match event {
            Ok((event, range)) => builder.take(event, range),
            Err(error) => {
                builder.syntax_error(&error);
                Err(Stop)
            }
        };
        if result.is_err() || builder.errors.len() >= limits::ERRORS {
            break;
        }
    }
    (builder.documents, builder.errors)
}

/// Parsing cannot continue.
struct Stop;

/// A list or map that has not ended yet.
struct Open {
    mark: Mark,
    anchor: usize,
    extent: Extent,
    items: Vec<Arc<Node>>,
    /// For a map: its entries, and the key whose value comes next.
    entries: Option<Vec<Entry>>,
    key: Option<(Arc<str>, Mark)>,
}

/// The size of a value, with aliases expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    values: u32,
    bytes: usize,
}

impl Extent {
    fn and(self, other: Self) -> Self {
        Self { values: self.values.saturating_add(other.values), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

struct Builder<'a> {
    file: &'a Path,
    lines: Lines<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Arc<Node>, Extent)>,
    /// The values themselves.
    values: u32,
    /// What aliases add.
    aliased: Extent,
    names: HashSet<Arc<str>>,
    documents: Vec<Arc<Node>>,
    errors: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, file: &'a Path) -> Self {
        Self {
            file,
            lines: Lines::of(text),
            open: Vec::new(),
            anchors: HashMap::new(),
            values: 0,
            aliased: Extent::default(),
            names: HashSet::new(),
            documents: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(_) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = self.is_text(tag.as_deref(), range);
                let plain = style == ScalarStyle::Plain && !text_tag;
                let block = style == ScalarStyle::Literal;
                let extent = Extent { values: 1, bytes: text.len() };
                let kind = Kind::Scalar { text: self.scalar(&text), plain, block };
                self.close(self.mark(range), kind, extent, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => self.start(range, anchor, tag.as_deref(), None)?,
            Event::MappingStart(anchor, tag) => self.start(range, anchor, tag.as_deref(), Some(Vec::new()))?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    let kind = match open.entries {
                        Some(entries) => Kind::Map(self.distinct(entries).into()),
                        None => Kind::List(open.items.into()),
                    };
                    self.close(open.mark, kind, open.extent, open.anchor)?;
                }
            }
            Event::Alias(anchor) => self.alias(anchor, range)?,
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, range: Range, anchor: usize, tag: Option<&Tag>, map: Option<Vec<Entry>>) -> Result<(), Stop> {
        let mark = self.mark(range);
        self.is_text(tag, range);
        if self.open.len() >= limits::DEPTH {
            self.error(
                mark,
                format!("lists and maps are nested more than {} levels deep", limits::DEPTH),
                "Look for unclosed brackets: objects are never nested this deep.",
            );
            return Err(Stop);
        }
        if self.open.last().is_some_and(|open| open.entries.is_some() && open.key.is_none()) {
            self.error(mark, "a list or map cannot be a key".into(), "Use plain text as the key.");
            return Err(Stop);
        }
        self.open.push(Open {
            mark,
            anchor,
            extent: Extent { values: 1, bytes: 0 },
            items: Vec::new(),
            entries: map,
            key: None,
        });
        Ok(())
    }

    fn alias(&mut self, anchor: usize, range: Range) -> Result<(), Stop> {
        let mark = self.mark(range);
        let Some((node, extent)) = self.anchors.get(&anchor).cloned() else {
            self.error(mark, "the alias is inside the value that it refers to".into(), "Write the value in full.");
            return Err(Stop);
        };
        self.aliased = self.aliased.and(extent);
        let too_much = if self.aliased.values > limits::ALIASED_VALUES {
            format!("{} values", limits::ALIASED_VALUES)
        } else if self.aliased.bytes > limits::ALIASED_BYTES {
            format!("{} MiB of text", limits::ALIASED_BYTES >> 20)
        } else {
            self.place(node, extent);
            return Ok(());
        };
        let help = "Write the values in full, or use `replicas:` for many similar pods.";
        self.error(mark, format!("aliases expand the file by more than {too_much}"), help);
        Err(Stop)
    }

    /// Returns the text of a scalar; short ones are shared, because many are equal: ports, protocols, `true`.
    fn scalar(&mut self, text: &str) -> Arc<str> {
        if text.len() <= limits::SHORT { shared(&mut self.names, text) } else { text.into() }
    }

    /// Ends a value: records its anchor and adds it to its parent.
    fn close(&mut self, mark: Mark, kind: Kind, extent: Extent, anchor: usize) -> Result<(), Stop> {
        self.values += 1;
        if self.values > limits::VALUES {
            let help = "Split it, or keep only the objects that the scenario needs.";
            self.error(mark, format!("the file has more than {} values", limits::VALUES), help);
            return Err(Stop);
        }
        let node = Arc::new(Node { mark, kind, pruned: false });
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), extent));
        }
        self.place(node, extent);
        Ok(())
    }

    fn place(&mut self, node: Arc<Node>, extent: Extent) {
        let Some(open) = self.open.last_mut() else {
            self.documents.push(node);
            return;
        };
        open.extent = open.extent.and(extent);
        let Some(entries) = &mut open.entries else {
            open.items.push(node);
            return;
        };
        let Some((name, mark)) = open.key.take() else {
            let name = node.text().unwrap_or_default();
            open.key = Some((shared(&mut self.names, name), node.mark));
            return;
        };
        // An empty value has no place.
        let empty = node.text().is_some_and(str::is_empty);
        let value = if empty { Arc::new(Node { mark, ..(*node).clone() }) } else { node };
        entries.push(Entry { name, mark, value });
    }

    /// Returns the entries of a map; of those with the same key, the first.
    fn distinct(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let mut first: HashMap<Arc<str>, Mark> = HashMap::with_capacity(entries.len());
        let mut repeated = Vec::new();
        entries.retain(|entry| match first.entry(entry.name.clone()) {
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(entry.mark);
                true
            }
            hash_map::Entry::Occupied(known) => {
                repeated.push((entry.name.clone(), entry.mark, *known.get()));
                false
            }
        });
        repeated.into_iter().take(limits::ERRORS).for_each(|(name, mark, first)| self.duplicate(&name, mark, first));
        entries
    }

    fn duplicate(&mut self, name: &str, mark: Mark, first: Mark) {
        let also = Label { span: self.span(first), length: first.length as usize, text: "first defined here".into() };
        self.error(mark, format!("duplicate key `{name}`"), "Remove one of them.");
        if let Some(error) = self.errors.last_mut() {
            error.also = Some(also);
        }
    }

    /// Returns true for the tag `!!str`. Tags that are not YAML's own are errors.
    fn is_text(&mut self, tag: Option<&Tag>, range: Range) -> bool {
        match tag {
            Some(tag) if tag.is_yaml_core_schema() => tag.suffix == "str",
            Some(tag) => {
                let mark = self.mark(range);
                self.error(mark, format!("unsupported tag `{tag}`"), "Remove it.");
                false
            }
            None => false,
        }
    }

    fn syntax_error(&mut self, error: &ScanError) {
        let marker = error.marker();
        let line = marker.line().clamp(1, self.lines.count().max(1));
        let tab = self.lines.text(line).trim_start_matches(' ').starts_with('\t');
        let help = if tab {
            "YAML does not allow tabs as indentation: use spaces."
        } else {
            "Check this line and the one above for indentation, a missing colon or quote, and unclosed brackets."
        };
        let mark = self.lines.mark(line, marker.col(), 1);
        self.error(mark, format!("invalid YAML: {}", error.info()), help);
    }

    fn error(&mut self, mark: Mark, message: String, help: &str) {
        let span = self.span(mark);
        let length = mark.length as usize;
        self.errors.push(Diagnostic { length, ..Diagnostic::new(span, message, help) });
    }

    fn span(&self, mark: Mark) -> Span {
        Span { file: self.file.to_owned(), line: mark.line as usize, column: mark.column as usize }
    }

    /// Returns the first line of a range, without text after the value.
    fn mark(&self, range: Range) -> Mark {
        let (start, end) = (range.start, range.end);
        let length = if end.line() == start.line() && end.col() > start.col() {
            end.col() - start.col()
        } else {
            let line = self.lines.text(start.line());
            let line = line.split(" #").next().unwrap_or_default().trim_end();
            line.chars().count().saturating_sub(start.col())
        };
        self.lines.mark(start.line(), start.col(), length)
    }
}

/// Returns a text shared by all its occurrences.
fn shared(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: Arc<str> = name.into();
    if names.len() < limits::SHARED_TEXTS {
        names.insert(new.clone());
    }
    new
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// What looks like a document marker is text within brackets, or an error; it is never ignored.
    #[rstest]
    #[case("{a: ---}")]
    #[case("{a: ---, b: 1}")]
    #[case("{a: --- , b: 1}")]
    #[case("{a: ..., b: 1}")]
    #[case("[---]")]
    #[case("a: ---")]
    #[case("- {targetPort: ---}")]
    fn marks_of_documents_are_not_left_out(#[case] text: &str) {
        let (documents, errors) = parse(text, Path::new("x"));
        let shown = format!("{documents:?}");
        assert!(!errors.is_empty() || shown.contains("\"---\"") || shown.contains("\"...\""), "{shown}");
    }
}
