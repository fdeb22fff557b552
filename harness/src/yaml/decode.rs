//! Decoding of trees to typed values, with all errors at once.
//!
//! serde stops at the first error. So each error is reported at its place, the value there is removed from the tree, and the rest is
//! decoded again, until there is no error or a limit is reached.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path as SerdePath, Segment};

use super::tree::{At, Hop, Kind, Node, Place};
use super::value::Reader;
use crate::input::{Diagnostic, limits};
use crate::input::{did_you_mean, listed};

/// The result of decoding a tree.
pub(crate) struct Decoded<T> {
    /// The value without the invalid parts; `None` if those are required.
    pub(crate) value: Option<T>,
    /// The tree without the invalid values: its lists are as long as those of the value.
    pub(crate) tree: Arc<Node>,
    /// The errors.
    pub(crate) errors: Vec<Diagnostic>,
}

/// Decodes a tree.
pub(crate) fn decode<T: DeserializeOwned>(file: &std::path::Path, tree: &Arc<Node>) -> Decoded<T> {
    let written = tree;
    let mut tree = tree.clone();
    let mut errors = Vec::new();
    // Most trees are valid: the size matters only for others.
    let mut budget = None;
    loop {
        let error = match serde_path_to_error::deserialize(Reader(&tree)) {
            Ok(value) => return Decoded { value: Some(value), tree, errors },
            Err(error) => error,
        };
        let path = hops(error.path());
        let at = follow(At::root(file, &tree), &path);
        let message = error.inner().to_string();
        // A field that was removed for an earlier error is not missing.
        let taken = missing_field(&message).is_some_and(|field| follow(At::root(file, written), &path).has(field));
        if !taken {
            errors.push(explain(at, &path, &message));
        }
        let size = tree.size();
        let left = budget.unwrap_or(limits::RECOVERY_VALUES.max(size.saturating_mul(2))).saturating_sub(size);
        budget = Some(left);
        if path.is_empty() {
            return Decoded { value: None, tree, errors };
        }
        if errors.len() >= limits::ERRORS || left < size {
            let help = "Correct the errors above and check the file again.";
            errors.push(At::root(file, written).error("too many errors: the rest was not checked").help(help));
            return Decoded { value: None, tree, errors };
        }
        Node::prune(&mut tree, &path);
    }
}

fn hops(path: &SerdePath) -> Vec<Hop> {
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Hop::Item(*index)),
            Segment::Map { key } => Some(Hop::Field(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

fn follow<'a>(root: At<'a>, path: &[Hop]) -> At<'a> {
    path.iter().fold(root, |at, hop| match hop {
        Hop::Field(name) => at.field(name),
        Hop::Item(index) => at.item(*index),
    })
}

/// Returns the name of a missing field in serde's message.
fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field ").and_then(|rest| quoted(rest).first().copied())
}

/// Rewords serde's message for authors of YAML.
fn explain(at: At<'_>, path: &[Hop], message: &str) -> Diagnostic {
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let names = quoted(rest);
        let (field, known) = names.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
        let help = match did_you_mean(field, known) {
            Some(question) => question,
            None if known.is_empty() => "No fields are allowed here.".to_owned(),
            None => format!("Known fields: {}.", listed(known)),
        };
        return at.key().error(format!("unknown field `{field}`")).help(help);
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted(rest);
        let (found, known) = names.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
        let question = did_you_mean(found, known).map(|question| question + " ").unwrap_or_default();
        let help = format!("{question}Known values: {}.", listed(known));
        return at.error(format!("unknown value `{found}`")).help(help);
    }
    if let Some(field) = missing_field(message) {
        return at.error(format!("missing field `{field}`")).help(format!("Add `{field}: ...`."));
    }
    let place = match path.last() {
        Some(Hop::Field(name)) => format!("`{name}`: "),
        _ => String::new(),
    };
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        let expected = in_words(expected);
        let found = written_number(at.node()).unwrap_or_else(|| in_words(found));
        let help = match expected.as_str() {
            "a map" => "Write fields and their values: `{name: value}`.".to_owned(),
            _ => format!("Use {expected}."),
        };
        return at.error(format!("{place}expected {expected}, found {found}")).help(help);
    }
    at.error(format!("{place}{message}"))
}

/// Returns a number that is too large for the reader, which then treats it as text.
fn written_number(node: &Node) -> Option<String> {
    let Kind::Scalar { text, plain: true, .. } = &node.kind else { return None };
    let number = text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| format!("`{text}`"))
}

/// Returns the words of a message in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Translates serde's names of types to YAML terms.
fn in_words(serde: &str) -> String {
    let fixed = match serde {
        "u8" => "an integer from 0 to 255",
        "u16" => "an integer from 0 to 65535",
        "u32" | "u64" | "usize" => "a non-negative integer",
        "i32" | "i64" => "an integer",
        "f64" => "a number",
        "a string" => "a string",
        "a sequence" => "a list",
        "a boolean" => "a boolean",
        "unit value" => "null",
        "sequence" => "a list",
        "map" => "a map",
        other if other.starts_with("struct ") => "a map",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    if let Some(text) = serde.strip_prefix("string ") {
        return format!("the string {text}");
    }
    for kind in ["integer ", "floating point ", "boolean "] {
        if let Some(literal) = serde.strip_prefix(kind) {
            return literal.to_owned();
        }
    }
    serde.to_owned()
}
