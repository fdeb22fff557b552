//! The kernel's handling of the examples of changes, as values.

/// What the kernel did with a change's example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// It was sent on both sides.
    Sent(KernelOutcomes),
    /// It was not sent, for this reason.
    NotSent(&'static str),
}

/// What the kernel did with a packet, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelOutcomes {
    /// What was observed on each side, as text.
    pub seen: [String; 2],
    /// Whether the observation on each side was predicted.
    pub is_predicted: [bool; 2],
    /// Why both sides are equal, if they are.
    pub alike: Option<&'static str>,
}
