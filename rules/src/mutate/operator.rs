//! Kinds of mistakes.

use std::fmt;

/// A kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The rule is not there.
    DroppedRule,
    /// An element of a set or map is not there.
    DroppedElement,
    /// It stands behind the next one.
    SwappedRules,
    /// `statistic` with half of its probability; of the numbers of `numgen`, one leads where another does.
    WrongProbability,
    /// `statistic` is not there, so that the rule takes all; all numbers of `numgen` lead to the same.
    LostProbability,
    /// A range of addresses with another length.
    WrongMask,
    /// Another port is compared.
    WrongPort,
    /// Another address is compared.
    WrongAddress,
    /// A `!` is not there.
    LostNegation,
    /// A condition is not there.
    LostCondition,
    /// `MARK` is not there.
    LostMark,
    /// Another bit is marked.
    WrongMark,
    /// Something that the rule does beside its verdict is not done.
    LostStatement,
    /// `RETURN` instead of a jump.
    ReturnForJump,
    /// Another chain of the same kind is jumped to.
    WrongChain,
    /// `MASQUERADE` is not there.
    MissingMasquerade,
    /// `REJECT` is not there.
    MissingReject,
    /// `DROP` is not there.
    MissingDrop,
    /// `DNAT` to an endpoint that is no more.
    StaleEndpoint,
    /// `DNAT` to another port.
    WrongTargetPort,
}

impl Operator {
    /// The name, in words: `lost negation`.
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
