//! Errors that leave nothing to judge.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scenario::Span;

/// The error of a test that was not run because of an error of its lab.
pub(crate) const NOT_RUN: &str = "not run, because the lab failed";

/// An error that left nothing to judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The kind of error.
    pub cause: Cause,
    /// The message: a fragment in lower case; may have several lines.
    pub message: String,
    /// A sentence that names the fix.
    pub help: Option<String>,
    /// The place in the input.
    pub span: Option<Span>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\nhelp: {help}"))
    }
}

impl std::error::Error for Trouble {}

/// The kind of an error, in the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// The input is invalid.
    Input,
    /// The environment lacks something.
    Environment,
    /// svclab itself failed.
    Internal,
}

impl Cause {
    /// The name in machine-readable reports: `input`, `environment`, `internal`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Environment => "environment",
            Self::Internal => "internal",
        }
    }
}

impl Trouble {
    /// The error of a test that was not run because of this error of its lab.
    pub(crate) fn for_test_not_run(&self) -> Self {
        let message = NOT_RUN.to_owned();
        Self { cause: self.cause, message, help: None, span: None }
    }
}
