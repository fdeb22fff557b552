//! Tables of iptables.

use std::fmt;

/// A table of iptables; ordered as `iptables-nft-save` prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableName {
    /// `mangle`.
    Mangle,
    /// `security`.
    Security,
    /// `raw`.
    Raw,
    /// `filter`.
    Filter,
    /// `nat`.
    Nat,
}

impl TableName {
    /// All tables.
    pub const ALL: [Self; 5] = [Self::Mangle, Self::Security, Self::Raw, Self::Filter, Self::Nat];

    /// The name in rule text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mangle => "mangle",
            Self::Security => "security",
            Self::Raw => "raw",
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }

    /// Returns the table that has built-in chains, by those that no other table has together; `None` if they are those of several tables.
    pub fn of_builtin_chains(has: impl Fn(&str) -> bool) -> Option<Self> {
        match (has("PREROUTING"), has("FORWARD"), has("POSTROUTING"), has("OUTPUT")) {
            (true, true, ..) | (_, true, true, _) => Some(Self::Mangle),
            (_, _, true, _) => Some(Self::Nat),
            (true, false, false, true) => Some(Self::Raw),
            (false, true, ..) => Some(Self::Filter),
            _ => None,
        }
    }

    /// Returns the built-in chains, in hook order.
    pub fn builtin_chains(self) -> &'static [&'static str] {
        match self {
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
            Self::Security | Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Raw => &["PREROUTING", "OUTPUT"],
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
