//! Answers of single conditions.

use std::sync::Arc;

use super::branch::Assumptions;

/// Whether a condition holds.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    /// For this packet, always.
    Yes,
    /// For this packet, never.
    No,
    /// Yes, if this is assumed.
    Assuming(Assumptions),
    /// For some packets out of so many.
    Sometimes(u32, u64),
    /// Unknown, for this reason.
    Unknown(Arc<str>),
}

impl Held {
    /// The opposite of what always or never holds, if requested.
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
