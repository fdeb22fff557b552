//! The formats of most results.

use clap::ValueEnum;

/// A page or JSON. Commands with other formats as well have an enum of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A page for a terminal.
    Text,
    /// One JSON document.
    Json,
}
