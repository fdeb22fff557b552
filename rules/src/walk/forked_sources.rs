//! Sources of a set of packets that are handled differently from its witness.

/// The packets of a set that a branch handles differently from its witness, by their sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForkedSources {
    /// Packets from one address, as a number.
    One(u128),
    /// All except those from the witness's address.
    Others,
}

impl ForkedSources {
    /// Returns whether packets from an address other than the witness's are forked off.
    pub fn has(self, source: u128) -> bool {
        match self {
            Self::One(one) => one == source,
            Self::Others => true,
        }
    }
}
