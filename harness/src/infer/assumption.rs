//! An assumption.

use std::fmt;

/// What is assumed for an input, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// Something that the input does not say.
    Assumed(String),
    /// Pieces of the input contradict each other, and one of them counts.
    Contradiction(String),
    /// Tables of nftables are not installed.
    TablesNotInstalled(String),
}

impl Assumption {
    /// Returns whether pieces of the input contradict each other.
    pub fn is_contradiction(&self) -> bool {
        matches!(self, Self::Contradiction(_))
    }
}

impl From<&str> for Assumption {
    fn from(words: &str) -> Self {
        Self::Assumed(words.to_owned())
    }
}

impl From<String> for Assumption {
    fn from(words: String) -> Self {
        Self::Assumed(words)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assumed(words) | Self::TablesNotInstalled(words) => f.write_str(words),
            Self::Contradiction(words) => write!(f, "contradiction: {words}"),
        }
    }
}
