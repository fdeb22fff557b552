//! Errors in the results of commands that run whole scenarios.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::Trouble;

/// An error because of which a scenario was not tried.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ScenarioError<'a> {
    /// The kind of error: `input`, `environment` or `internal`.
    cause: &'static str,
    /// The message, a lower-case fragment.
    message: &'a str,
    /// How to fix it, in a sentence.
    help: Option<&'a str>,
}

impl<'a> From<&'a Trouble> for ScenarioError<'a> {
    fn from(trouble: &'a Trouble) -> Self {
        Self { cause: trouble.cause.as_str(), message: &trouble.message, help: trouble.help.as_deref() }
    }
}
