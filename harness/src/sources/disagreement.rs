//! Which sources disagree.

use serde::{Deserialize, Serialize};

/// Which sources disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Disagreement {
    /// Prediction and observation agree with each other and not with the promise, and rules decide.
    Rules,
    /// The same, and in a network that is in order the same rules would keep the promise: kernel settings or bridges do not let
    /// them.
    Network,
    /// The same, and without the entries that connection tables had before the same rules would keep the promise.
    Connection,
    /// Nothing is predicted, and the promise is not what was seen.
    Unpredicted,
    /// Promise and prediction agree with each other and not with what was seen.
    Kernel,
    /// The prediction alone is wrong.
    Model,
    /// All three differ.
    All,
    /// What is promised happens, and rules on the way are not modelled.
    Unknown,
    /// The release is known not to keep the promise here, and does not.
    Known,
}

impl Disagreement {
    /// Whether a verification fails by it. A fault of the release of which the promise itself says so is none.
    pub fn fails(self, allow_unknown: bool) -> bool {
        match self {
            Self::Known => false,
            Self::Unknown => !allow_unknown,
            Self::Rules
            | Self::Network
            | Self::Connection
            | Self::Unpredicted
            | Self::Kernel
            | Self::Model
            | Self::All => true,
        }
    }

    /// What it means, in a sentence; whether a packet was observed.
    pub(crate) fn sentence(self, is_observed: bool) -> &'static str {
        match self {
            Self::Rules if !is_observed => "The rules do not do what is promised.",
            Self::Rules => "The rules do not do what is promised, and the kernel does what the rules say.",
            Self::Network => {
                "The network is the cause: with default settings, and working bridges and links, these rules would keep the promise."
            }
            Self::Connection => {
                "An entry of a connection table is the cause: without it, these rules would keep the promise."
            }
            Self::Unpredicted => {
                "The promise is not kept; the rules could not be walked, so either they or the kernel may be the cause."
            }
            Self::Kernel => "The rules keep the promise, but the kernel does something else.",
            Self::Model => "The promise is kept, but svclab's prediction is wrong: please report it.",
            Self::All => "All three differ: the rules break the promise, and the kernel does not do what they say.",
            Self::Unknown if !is_observed => {
                "A rule on the path is not modelled, so it is unknown whether the promise is kept."
            }
            Self::Unknown => {
                "The promise is kept, but a rule on the path is not modelled, so it is unknown whether it always does."
            }
            Self::Known => "This release is known not to keep the promise here.",
        }
    }
}
