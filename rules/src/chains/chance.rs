//! When a rule takes a connection.

use crate::iptables::Probability;

/// When a rule takes a connection that comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chance {
    /// Where 31 random bits are below a threshold: `statistic --mode random` (`xt_statistic.c`).
    Below(Probability),
    /// Always: it takes all that is left.
    Always,
    /// By one of the numbers of nft's `numgen random`: 32 random bits, multiplied by `of` and cut to the number above
    /// the lowest 32 bits (`nft_numgen.c`, `reciprocal_scale`).
    Drawn {
        /// How many of the 2^32 values of the random bits give this number.
        draws: u32,
        /// How many numbers there are, at least 2.
        of: u32,
    },
    /// For `part` of every `every` packets, in turn: `statistic --mode nth`.
    Nth {
        /// How many of a turn.
        part: u32,
        /// How many packets a turn has, at least 2.
        every: u32,
    },
    /// By something of the packet, which is not random.
    Condition,
}

impl Chance {
    /// How many of [`Self::draws`] hold.
    pub fn threshold(self) -> u32 {
        match self {
            Self::Below(probability) => probability.threshold(),
            Self::Always => Probability::ONE,
            Self::Drawn { draws, .. } => draws,
            Self::Nth { part, .. } => part,
            Self::Condition => 0,
        }
    }

    /// The chance as rules have it: `0.33333333349`, `always`, `1 of 3`.
    pub fn words(self) -> String {
        match self {
            Self::Below(probability) => probability.words(),
            Self::Always => "always".to_owned(),
            Self::Drawn { draws, of } => {
                let numbers = (f64::from(draws) * f64::from(of) / 2_f64.powi(32)).round();
                format!("{numbers} of {of}")
            }
            Self::Nth { part, every } => format!("{part} of every {every}"),
            Self::Condition => "conditional".to_owned(),
        }
    }

    /// This chance or that one, of the same draw.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Drawn { draws, of }, Self::Drawn { draws: more, .. }) => match draws.checked_add(more) {
                Some(draws) => Self::Drawn { draws, of },
                None => Self::Always,
            },
            (Self::Nth { part, every }, Self::Nth { part: more, .. }) => {
                Self::Nth { part: part.saturating_add(more), every }
            }
            (one, _) => one,
        }
    }

    /// How many draws the kernel can make: 2^31, or for nft's `numgen` 2^32.
    pub fn draws(self) -> u64 {
        match self {
            Self::Drawn { .. } => 1 << 32,
            Self::Nth { every, .. } => u64::from(every),
            Self::Below(_) | Self::Always | Self::Condition => u64::from(Probability::ONE),
        }
    }
}
