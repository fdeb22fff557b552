//! nftables tables that are not kube-proxy's.

use std::sync::Arc;

use crate::nftables::{ParseError, Parsed, parse_all};

/// nftables tables alongside kube-proxy's rules. They are installed as written, because the parsed form omits statements that do not affect
/// packets (`log`, counters).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTables {
    text: Arc<str>,
    parsed: Parsed,
}

impl OtherTables {
    pub(super) fn parse(text: &str) -> Result<Self, Vec<ParseError>> {
        Ok(Self { parsed: parse_all(text)?, text: text.into() })
    }

    /// Returns the tables; an `inet` table is one of each family.
    pub(crate) fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Returns the text as given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Prints the text after commands that flush these tables, because `nft -f` adds to existing ones.
    pub(super) fn print_sync(&self) -> String {
        let emptied = self.parsed.names.iter().map(|name| format!("table {name} {{\n}}\nflush table {name}\n"));
        emptied.collect::<String>() + &self.text
    }
}
