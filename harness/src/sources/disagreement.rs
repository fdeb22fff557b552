//! Which sources disagree.

use serde::{Deserialize, Serialize};

/// A disagreement between the sources, and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Disagreement {
    /// Prediction and observation agree with each other but not with the promise, and rules are the cause.
    Rules,
    /// As `Rules`, but with default settings the same rules would keep the promise: kernel settings, bridges or links prevent it.
    Network,
    /// As `Rules`, but without earlier entries in conntrack tables the same rules would keep the promise.
    Connection,
    /// The kernel decides as predicted if the packet is sent alone, after all state about earlier packets was flushed, but not otherwise.
    EarlierPackets,
    /// Nothing is predicted, and the observation breaks the promise.
    Unpredicted,
    /// Promise and prediction agree with each other but not with the observation.
    Kernel,
    /// The prediction alone is wrong.
    Model,
    /// All three differ.
    All,
    /// The promise is kept, but rules on the path are not modelled.
    Unknown,
    /// The promise is kept or broken depending on interfaces of rules that the text does not show.
    NotShown,
    /// The release is known not to keep the promise here, and it does not.
    Known,
}

impl Disagreement {
    /// Whether it makes a verification fail. A known bug of the release does not.
    pub fn fails(self, allow_unknown: bool) -> bool {
        match self {
            Self::Known => false,
            Self::Unknown | Self::NotShown => !allow_unknown,
            Self::Rules
            | Self::Network
            | Self::Connection
            | Self::EarlierPackets
            | Self::Unpredicted
            | Self::Kernel
            | Self::Model
            | Self::All => true,
        }
    }

    /// Whether the kernel does something other than predicted.
    pub(crate) fn contradicts_prediction(self) -> bool {
        matches!(self, Self::Kernel | Self::Model | Self::All)
    }

    /// The meaning in a sentence, which depends on whether a packet was observed.
    pub(crate) fn sentence(self, is_observed: bool) -> &'static str {
        match self {
            Self::Rules if !is_observed => "The rules break the promise.",
            Self::Rules => "The rules break the promise, and the kernel follows the rules.",
            Self::Network => {
                "The network is the cause: with default settings, and working bridges and links, these rules would keep the promise."
            }
            Self::Connection => "A conntrack entry is the cause: without it, these rules would keep the promise.",
            Self::EarlierPackets => "Earlier packets are the cause: sent alone, the packet has the predicted outcome.",
            Self::Unpredicted => {
                "The promise is not kept; the rules could not be walked, so either they or the kernel may be the cause."
            }
            Self::Kernel => "The rules keep the promise, but the kernel does something else.",
            Self::Model => "The promise is kept, but svclab's prediction is wrong: please report it.",
            Self::All => "All three differ: the rules break the promise, and the kernel does not follow the rules.",
            Self::Unknown if !is_observed => {
                "A rule on the path is not modelled, so it is unknown whether the promise is kept."
            }
            Self::Unknown => {
                "The promise is kept, but a rule on the path is not modelled, so it is unknown whether it always does."
            }
            Self::NotShown => {
                "Not verified: the promise is kept or broken depending on interfaces, which `iptables -L` shows only with `-v`."
            }
            Self::Known => "This release is known not to keep the promise here.",
        }
    }
}
