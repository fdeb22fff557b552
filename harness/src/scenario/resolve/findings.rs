//! Errors and notes found while resolving.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::input::{Diagnostic, Diagnostics, Span, did_you_mean, did_you_mean_elsewhere};
use crate::scenario::model::Note;
use crate::text::{is_interpreted, list, one_line};
use crate::yaml::{At, Place};

/// Errors and notes, in the order of discovery.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    known: HashSet<(Span, String)>,
    /// The errors.
    pub(crate) errors: Vec<Diagnostic>,
    /// The notes.
    pub(crate) notes: Vec<Note>,
}

/// The most known names that are listed.
const MAX_KNOWN: usize = 8;

impl Findings {
    /// Returns the errors in the order of files and lines, with the texts of the files.
    pub(crate) fn into_diagnostics(self, sources: BTreeMap<PathBuf, Arc<str>>) -> Diagnostics {
        let mut errors = self.errors;
        errors.sort_by(|a, b| (&a.span, &a.message).cmp(&(&b.span, &b.message)));
        Diagnostics { errors, sources }
    }

    /// Records an error. Duplicates, which later steps may find, are kept once.
    pub(crate) fn add(&mut self, mut error: Diagnostic) {
        error.message = one_line(&error.message).into_owned();
        error.help = error.help.map(|help| one_line(&help).into_owned());
        if self.known.insert((error.span.clone(), error.message.clone())) {
            self.errors.push(error);
        }
    }

    /// Records an error with its help.
    pub(crate) fn wrong(&mut self, place: impl Place, message: impl Into<String>, help: impl Into<String>) {
        self.add(place.error(message).help(help));
    }

    /// Records that something is missing at a place, unless something there could not be read, which may be the missing part.
    pub(crate) fn missing(&mut self, at: At<'_>, message: impl Into<String>, help: impl Into<String>) {
        if !at.is_pruned() {
            self.wrong(at, message, help);
        }
    }

    /// Records a dangling reference, with the most similar known name.
    pub(crate) fn dangling<S: AsRef<str>>(&mut self, at: At<'_>, what: &str, name: &str, known: &[S]) {
        let help = match did_you_mean(name, known).or_else(|| did_you_mean_elsewhere(name, known)) {
            Some(question) => question,
            None if known.is_empty() => format!("Add a {what} with this name: the scenario has none."),
            None => {
                let known = list(known.iter().map(AsRef::as_ref), MAX_KNOWN);
                format!("Add a {what} with this name, or use one of: {known}.")
            }
        };
        self.wrong(at, format!("there is no {what} `{name}`"), help);
    }

    /// Parses a value, or records the error.
    pub(crate) fn parsed<T: std::str::FromStr>(&mut self, at: At<'_>, text: &str, what: &str, like: &str) -> Option<T> {
        let value = text.trim().parse().ok();
        if value.is_none() {
            self.wrong(at, format!("invalid {what} `{text}`"), format!("Use {like}."));
        }
        value
    }

    /// Returns a name without the line break that a YAML block appends; it must be one line.
    pub(crate) fn line(&mut self, text: &str, at: At<'_>) -> String {
        let line = text.trim_end();
        if line.is_empty() {
            self.wrong(at, "the name is empty", "Write a sentence that says what must hold.");
        } else if line.contains(is_interpreted) {
            self.wrong(at, "the name contains a line break or another control character", "Write it on one line.");
        }
        line.to_owned()
    }

    /// Records an object that was ignored.
    pub(crate) fn note(&mut self, at: At<'_>, message: impl Into<String>) {
        self.remark(at, message.into(), false);
    }

    /// Records a doubtful value that is not an error.
    pub(crate) fn doubt(&mut self, at: At<'_>, message: impl Into<String>) {
        self.remark(at, message.into(), true);
    }

    fn remark(&mut self, at: At<'_>, message: String, is_warning: bool) {
        let note = Note { span: at.span(), message: one_line(&message).into_owned(), is_warning };
        if self.known.insert((note.span.clone(), note.message.clone())) {
            self.notes.push(note);
        }
    }
}
