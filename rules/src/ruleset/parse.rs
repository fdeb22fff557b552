//! Parsing of rules in the language of a mode.

use super::{OtherTables, Rules};
use crate::cluster::{Family, ProxyMode};
use crate::{iptables, nftables};

/// A parse error, in either language.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum ParseError {
    /// In iptables rules.
    Iptables(#[from] iptables::ParseError),
    /// In nftables tables.
    Nftables(#[from] nftables::ParseError),
}

impl ParseError {
    /// Returns line and column in the text, from 1, and the message; see [`nftables::ParseError::in_text`].
    pub fn in_text(&self) -> ((usize, usize), String) {
        match self {
            Self::Iptables(error) => ((error.line, error.column), error.message.clone()),
            Self::Nftables(error) => error.in_text(),
        }
    }

    /// Returns the number of characters to mark: a word in iptables rules, one character in nftables tables.
    pub fn width(&self) -> usize {
        match self {
            Self::Iptables(error) => {
                let rest = error.text.chars().skip(error.column - 1);
                rest.take_while(|letter| !letter.is_whitespace()).count().max(1)
            }
            Self::Nftables(_) => 1,
        }
    }
}

impl Rules {
    /// Parses the output of `iptables-save` or `nft list ruleset`, depending on the mode; in nftables mode, only kube-proxy's tables.
    ///
    /// # Errors
    ///
    /// As [`iptables::parse`] and [`nftables::parse()`].
    pub fn parse(mode: ProxyMode, family: Family, text: &str) -> Result<Self, Vec<ParseError>> {
        match mode {
            ProxyMode::Iptables => iptables::parse(text, family).map(Self::Iptables).map_err(either),
            ProxyMode::Nftables => nftables::parse(text).map(Self::Nftables).map_err(either),
        }
    }

    /// Parses nftables tables that are not kube-proxy's, in the format of `nft list ruleset` without `-j`.
    ///
    /// # Errors
    ///
    /// As [`nftables::parse_all`].
    pub fn parse_other_tables(text: &str) -> Result<Self, Vec<ParseError>> {
        OtherTables::parse(text).map(Self::OtherTables).map_err(either)
    }
}

fn either<E: Into<ParseError>>(errors: Vec<E>) -> Vec<ParseError> {
    errors.into_iter().map(Into::into).collect()
}
