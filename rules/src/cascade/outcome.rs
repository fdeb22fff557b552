//! The outcome of connections that enter a cascade's chain but get no endpoint.

use std::fmt;

use crate::walk::Share;

/// A part of the connections that reaches no endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallen {
    /// The number of the rule by which they leave the cascade's chain, from 1; 0 for its end.
    pub rule: usize,
    /// The chain of the rule that decides, if it is not the cascade's own.
    pub within: Option<String>,
    /// Their outcome.
    pub fate: ConnectionOutcome,
    /// Their share of all new connections.
    pub share: Share,
}

/// The outcome of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionOutcome {
    /// They reach this endpoint.
    Endpoint(String),
    /// They return to the calling chain untranslated.
    Returned,
    /// They are accepted untranslated.
    Accepted,
    /// They are dropped.
    Dropped,
    /// They are rejected.
    Rejected,
    /// They continue in the chain of another cascade.
    Handed(String),
    /// Unknown, for this reason.
    Unknown(String),
}

impl ConnectionOutcome {
    /// Returns a stable identifier for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Endpoint(_) => "endpoint",
            Self::Returned => "returned",
            Self::Accepted => "accepted",
            Self::Dropped => "dropped",
            Self::Rejected => "rejected",
            Self::Handed(_) => "handed-on",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What happens to a connection: `is dropped`.
impl fmt::Display for ConnectionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(endpoint) => write!(f, "goes to {endpoint}"),
            Self::Returned => f.write_str("leaves the chain untranslated"),
            Self::Accepted => f.write_str("is accepted untranslated"),
            Self::Dropped => f.write_str("is dropped"),
            Self::Rejected => f.write_str("is rejected"),
            Self::Handed(chain) => write!(f, "continues in {chain}"),
            Self::Unknown(why) => write!(f, "has an unknown destination ({why})"),
        }
    }
}

/// Connections that the rules handle differently from those that the shares describe, because of something other than chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// An example, as what distinguishes it from other connections: `from 10.0.0.1`.
    pub example: String,
    /// The number of the first rule that handles them differently.
    pub rule: usize,
    /// Their outcome, in the order of rules.
    pub fates: Vec<(ConnectionOutcome, Share)>,
}

/// A part that is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The number of the rule in the chain, from 1; 0 for the chain as a whole.
    pub rule: usize,
    /// The share of all new connections concerned, if known.
    pub share: Option<Share>,
    /// What is unknown and why, as a lower-case fragment.
    pub why: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rule > 0 {
            write!(f, "rule {}: ", self.rule)?;
        }
        f.write_str(&self.why)?;
        self.share.map_or(Ok(()), |share| write!(f, ": {} new connections", of_all(share)))
    }
}

/// Returns a share of all connections in words: `1/2 of all`, `all`.
pub(super) fn of_all(share: Share) -> String {
    if share == Share::ONE { "all".to_owned() } else { format!("{share} of all") }
}

/// The assessment of a cascade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assessment {
    /// Every endpoint gets the same share, for all connections.
    Even,
    /// There are defects.
    Defective,
    /// No defect in the rules given, but they are incomplete.
    Unknown,
}

impl Assessment {
    /// Returns a stable identifier for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Defective => "defective",
            Self::Unknown => "unknown",
        }
    }
}
