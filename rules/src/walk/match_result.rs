//! Results of single conditions.

use std::sync::Arc;

use super::branch::Assumptions;

/// The result of a condition.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    /// It always holds for this packet.
    Yes,
    /// It never holds for this packet.
    No,
    /// It holds under these assumptions.
    Assuming(Assumptions),
    /// It holds at random: with a probability of the first number over the second.
    Random(u32, u64),
    /// Unknown, for the given reason.
    Unknown(Arc<str>),
}

impl Held {
    /// Negates `Yes` and `No`, if requested.
    pub(crate) fn negated(self, negated: bool) -> Self {
        match self {
            Self::Yes if negated => Self::No,
            Self::No if negated => Self::Yes,
            other => other,
        }
    }
}

impl From<bool> for Held {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
