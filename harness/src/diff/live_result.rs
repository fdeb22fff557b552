//! What the kernel did with examples of changes, as values.

/// What the kernel did with a change's example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// It was sent on both sides.
    Sent(KernelOutcomes),
    /// It was not, and why.
    NotSent(&'static str),
}

/// What the kernel did with a packet, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelOutcomes {
    /// What was observed on each side, in words.
    pub seen: [String; 2],
    /// Whether that is what the rules are predicted to do.
    pub is_predicted: [bool; 2],
    /// Why both are alike, where they are.
    pub alike: Option<&'static str>,
}
