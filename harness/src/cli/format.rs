//! The output formats of most commands.

use clap::ValueEnum;

/// A page or JSON. Commands with more formats have their own enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Text for a terminal.
    Text,
    /// One JSON document.
    Json,
}
