//! Kinds of mutations.

use std::fmt;

/// A kind of mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The rule is removed.
    DroppedRule,
    /// An element of a set or map is removed.
    DroppedElement,
    /// The rule is swapped with the next one.
    SwappedRules,
    /// `statistic` has half of its probability; one number of `numgen` selects the endpoint of another.
    WrongProbability,
    /// `statistic` is removed, so that the rule always matches; all numbers of `numgen` select the same endpoint.
    LostProbability,
    /// A range of addresses has another prefix length.
    WrongMask,
    /// Another port is matched.
    WrongPort,
    /// Another address is matched.
    WrongAddress,
    /// A `!` is removed.
    LostNegation,
    /// A condition is removed.
    LostCondition,
    /// `MARK` is removed.
    LostMark,
    /// Another bit of the mark is set.
    WrongMark,
    /// A statement other than the verdict is removed.
    LostStatement,
    /// `RETURN` replaces a jump.
    ReturnForJump,
    /// The jump goes to another chain of the same kind.
    WrongChain,
    /// `MASQUERADE` is removed.
    MissingMasquerade,
    /// `REJECT` is removed.
    MissingReject,
    /// `DROP` is removed.
    MissingDrop,
    /// `DNAT` to an endpoint that no longer exists.
    StaleEndpoint,
    /// `DNAT` to another port.
    WrongTargetPort,
}

impl Operator {
    /// Returns the name: `lost negation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DroppedRule => "dropped rule",
            Self::DroppedElement => "dropped element",
            Self::SwappedRules => "swapped rules",
            Self::WrongProbability => "wrong probability",
            Self::LostProbability => "lost probability",
            Self::WrongMask => "wrong mask",
            Self::WrongPort => "wrong port",
            Self::WrongAddress => "wrong address",
            Self::LostNegation => "lost negation",
            Self::LostCondition => "lost condition",
            Self::LostMark => "lost mark",
            Self::WrongMark => "wrong mark",
            Self::LostStatement => "lost statement",
            Self::ReturnForJump => "RETURN for jump",
            Self::WrongChain => "wrong chain",
            Self::MissingMasquerade => "missing MASQUERADE",
            Self::MissingReject => "missing REJECT",
            Self::MissingDrop => "missing DROP",
            Self::StaleEndpoint => "stale endpoint",
            Self::WrongTargetPort => "wrong target port",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
