//! Tables of nftables that are not kube-proxy's.

use std::sync::Arc;

use crate::nftables::{ParseError, Parsed, parse_all};

/// Tables of nftables alongside kube-proxy's rules. They are installed as their author wrote them, since the parsed form has no room for
/// what decides about no packet (`log`, counters).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTables {
    text: Arc<str>,
    parsed: Parsed,
}

impl OtherTables {
    pub(super) fn parse(text: &str) -> Result<Self, Vec<ParseError>> {
        Ok(Self { parsed: parse_all(text)?, text: text.into() })
    }

    /// The tables, one of `inet` as one of each family.
    pub(crate) fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// The text as it was given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text after commands that empty these tables, because `nft -f` adds to existing ones.
    pub(super) fn print_sync(&self) -> String {
        let emptied = self.parsed.names.iter().map(|name| format!("table {name} {{\n}}\nflush table {name}\n"));
        emptied.collect::<String>() + &self.text
    }
}
