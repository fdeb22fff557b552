//! What can be wrong with a cascade.

use std::fmt;

use crate::walk::Share;

/// Something wrong, with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Defect {
    /// The number of the rule in the chain, from 1; 0 stands for the chain as a whole.
    pub rule: usize,
    /// What it is.
    pub kind: Kind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// The probability is not one of as many as there are endpoints left.
    Probability {
        /// What is written.
        written: f64,
        /// What would be even.
        even: f64,
        /// What the endpoint gets.
        share: Share,
    },
    /// The probability is even, but written with five digits, as releases up to 1.16 do: what is lost adds up.
    FiveDigits {
        /// What is written.
        written: f64,
        /// By how much the endpoint's share is off, relative to even.
        deviation: f64,
    },
    /// The endpoint has had a rule before.
    Duplicate {
        /// The endpoint.
        endpoint: String,
        /// The number of the first rule.
        first: usize,
    },
    /// No packet ever comes here: a rule before takes all that is left.
    Unreachable {
        /// The endpoint that gets nothing by this rule.
        endpoint: String,
    },
    /// The rule asks for more than chance, so that its share depends on the packet: it is counted as nothing.
    Conditional {
        /// The endpoint.
        endpoint: String,
    },
    /// The endpoint's chain is missing, or translates to nowhere.
    NoDestination {
        /// The chain.
        chain: String,
    },
    /// A packet that no rule takes leaves the chain untranslated.
    FallsThrough {
        /// How much of all new connections.
        share: Share,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rule > 0 {
            write!(f, "rule {}: ", self.rule)?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probability { written, even, share } => {
                write!(f, "probability {written:.11} where {even:.11} would be even: its endpoint gets {share} of all")
            }
            Self::FiveDigits { written, deviation } => {
                let percent = deviation * 100.0;
                write!(f, "probability {written:.5} has five digits only: its endpoint's share is {percent:+.4} % off")
            }
            Self::Duplicate { endpoint, first } => {
                write!(f, "{endpoint} has rule {first} already, and gets a share for each")
            }
            Self::Unreachable { endpoint } => {
                write!(f, "nothing is left for {endpoint}: a rule before it takes everything")
            }
            Self::Conditional { endpoint } => {
                write!(
                    f,
                    "asks for more than chance, so that {endpoint} gets a share of some packets only: counted as nothing"
                )
            }
            Self::NoDestination { chain } => write!(f, "{chain} translates to no address"),
            Self::FallsThrough { share } => write!(f, "{share} of new connections are left to no endpoint"),
        }
    }
}
