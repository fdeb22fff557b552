//! What compiled rules do.

use std::sync::Arc;

use crate::nftables::numgen::Draws;
use crate::nftables::{LookupKey, Side};
use crate::walk::{By, Destination, Next, Outcome, RejectResponse, RuleId, Source};

/// A statement of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Verdict(Verdict),
    Reject(RejectResponse),
    /// The verdict that a map, by its position, has for the packet's key; where it has none, the rule ends.
    Lookup {
        key: Box<[LookupKey]>,
        map: u32,
    },
    /// One of these verdicts.
    Balance(Box<Draws<Verdict>>),
    /// One of these destinations.
    Dnat(Box<Draws<Destination>>),
    Snat(Source),
    /// The bits of the mask are cleared in the mark, then those of the value flipped.
    Mark {
        mask: u32,
        value: u32,
    },
    /// One of the packet's addresses is noted in a list.
    Remember(Side, Arc<str>),
    /// Not modelled, for this reason.
    Unknown(Arc<str>),
}

impl Action {
    /// For how many of all draws its map has a value, where it lacks some: the rule does not match for the others.
    pub(super) fn matching(&self, counted: bool) -> Option<(u32, u64)> {
        match self {
            Self::Balance(verdicts) => verdicts.lacking(counted),
            Self::Dnat(destinations) => destinations.lacking(counted),
            _ => None,
        }
    }

    /// Among how many things chance chooses.
    pub(super) fn choices(&self) -> u64 {
        match self {
            Self::Balance(verdicts) => verdicts.len().max(1) as u64,
            Self::Dnat(destinations) => destinations.len().max(1) as u64,
            _ => 1,
        }
    }
}

/// What becomes of a packet; chains by their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(u32),
    Goto(u32),
}

impl Verdict {
    /// Where a rule with this verdict leads to.
    pub(super) fn next(self, rule: u32) -> Next {
        match self {
            Self::Accept => Next::Accept,
            Self::Drop => Next::end(Outcome::Drop(By::Rule(RuleId(rule)))),
            Self::Return => Next::Return,
            Self::Jump(chain) => Next::Jump(chain),
            Self::Goto(chain) => Next::Goto(chain),
        }
    }
}
