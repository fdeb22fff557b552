//! The outcome of connections that enter a cascade's chain but get no endpoint.

use std::fmt;

use crate::walk::Share;

/// A part of the connections that gets no endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallen {
    /// The number of the rule of the cascade's chain by which they leave it, from 1; 0 for its end.
    pub rule: usize,
    /// The chain of the rule that decides, if it is another one that the rule leads to.
    pub within: Option<String>,
    /// Their outcome.
    pub fate: Fate,
    /// How much of all new connections they are.
    pub share: Share,
}

/// The outcome of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// They get this endpoint.
    Endpoint(String),
    /// They go back untranslated to the chain that led here.
    Returned,
    /// They are accepted untranslated.
    Accepted,
    /// They are dropped.
    Dropped,
    /// They are rejected.
    Rejected,
    /// They go on with the chain of another cascade.
    Handed(String),
    /// Unknown, for this reason.
    Unknown(String),
}

impl Fate {
    /// A name for programs, which stays the same.
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
impl fmt::Display for Fate {
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

/// Connections that rules treat otherwise than those that the shares are of, because of something that is not chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// One of them, by what distinguishes it from the others: `from 10.0.0.1`.
    pub example: String,
    /// The number of the first rule that treats them otherwise.
    pub rule: usize,
    /// Their outcome, in the order of rules.
    pub fates: Vec<(Fate, Share)>,
}

/// A part that is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The number of the rule in the chain, from 1; 0 for the chain as a whole.
    pub rule: usize,
    /// How much of all new connections it is about, if that is known.
    pub share: Option<Share>,
    /// What is not known, and why, as a lower-case fragment.
    pub why: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rule > 0 {
            write!(f, "rule {}: ", self.rule)?;
        }
        f.write_str(&self.why)?;
        self.share.map_or(Ok(()), |share| write!(f, ": {share} of all new connections"))
    }
}

/// The assessment of a cascade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assessment {
    /// Every endpoint gets the same, whatever the connection.
    Even,
    /// Something is wrong.
    Defective,
    /// Nothing is wrong as far as the rules are shown, but they do not show all.
    Unknown,
}

impl Assessment {
    /// A name for programs, which stays the same.
    pub fn code(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Defective => "defective",
            Self::Unknown => "unknown",
        }
    }
}
