//! The severity of findings.

use schemars::JsonSchema;
use serde::Serialize;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Traffic fails, or goes where it must not.
    Error,
    /// Traffic may fail, or rules are not as kube-proxy writes them.
    Warning,
    /// Worth knowing; it may be intended.
    Info,
}

impl Severity {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}
