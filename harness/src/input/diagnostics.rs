//! Errors in an input, with their places.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{deserialize_path, one_line, printable, serialize_path};

/// A place in an input file, printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema, Deserialize)]
pub struct Span {
    /// The file, as the user named it.
    #[serde(serialize_with = "serialize_path", deserialize_with = "deserialize_path")]
    #[schemars(with = "String")]
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Span {
    /// Returns the start of a file: the place of errors that concern the whole file.
    pub fn start_of(file: &Path) -> Self {
        Self { file: file.to_owned(), line: 1, column: 1 }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", printable(&self.file), self.line, self.column)
    }
}

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Where it is.
    #[serde(flatten)]
    pub span: Span,
    /// Its length in characters; at least one.
    pub length: usize,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// How to correct it: a sentence.
    pub help: Option<String>,
    /// A related place.
    pub also: Option<Label>,
}

/// A place with a remark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The place.
    #[serde(flatten)]
    pub span: Span,
    /// Its length in characters; at least one.
    pub length: usize,
    /// The remark: a lower-case fragment.
    pub text: String,
}

/// All errors in an input, in the order of files and lines, with the texts of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Diagnostics {
    /// The errors; never empty in an error.
    pub errors: Vec<Diagnostic>,
    /// The text of every file that was read.
    #[serde(skip)]
    pub sources: BTreeMap<PathBuf, Arc<str>>,
}

impl Diagnostic {
    /// Creates an error at a line and column of a file, both from 1, with its fix.
    pub fn at(
        file: &Path,
        (line, column): (usize, usize),
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::new(Span { file: file.to_owned(), line, column }, message, help)
    }

    /// Creates an error at one character.
    pub fn new(span: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { span, length: 1, message: message.into(), help: Some(help.into()), also: None }
    }
}

impl Diagnostics {
    /// Returns the text of a file that a diagnostic points into; `None` if it could not be read.
    pub fn source(&self, file: &Path) -> Option<&str> {
        self.sources.get(file).map(AsRef::as_ref)
    }

    /// Returns whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.span, one_line(&self.message))?;
        if let Some(also) = &self.also {
            write!(f, "\n  {}: {}", also.span, one_line(&also.text))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {}", one_line(help))?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups().iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{group}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
