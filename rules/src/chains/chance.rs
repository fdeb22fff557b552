//! How a rule decides whether it takes a connection.

use crate::iptables::Probability;

/// The condition under which a rule takes a connection that reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chance {
    /// If 31 random bits are below a threshold: `statistic --mode random` (`xt_statistic.c`).
    Below(Probability),
    /// Always: the rule takes everything that is left.
    Always,
    /// For one of the numbers of nft's `numgen random`: 32 random bits, multiplied by `of` and shifted right by 32 bits (`nft_numgen.c`,
    /// `reciprocal_scale`).
    Drawn {
        /// The number of the 2^32 random values that give this number.
        draws: u32,
        /// The modulus, at least 2.
        of: u32,
    },
    /// For `part` of every `every` packets, in turn: `statistic --mode nth`.
    Nth {
        /// The number of packets taken per round.
        part: u32,
        /// The length of a round in packets, at least 2.
        every: u32,
    },
    /// By a property of the packet, which is not random.
    Condition,
}

impl Chance {
    /// Returns how many of [`Self::draws`] the rule takes.
    pub fn threshold(self) -> u32 {
        match self {
            Self::Below(probability) => probability.threshold(),
            Self::Always => Probability::ONE,
            Self::Drawn { draws, .. } => draws,
            Self::Nth { part, .. } => part,
            Self::Condition => 0,
        }
    }

    /// Returns the probability as rules write it: `0.33333333349`, `always`, `1 of 3`.
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

    /// Combines two outcomes of the same draw: either of them.
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

    /// Returns the number of values that the kernel can draw: 2^31, or 2^32 for nft's `numgen`.
    pub fn draws(self) -> u64 {
        match self {
            Self::Drawn { .. } => 1 << 32,
            Self::Nth { every, .. } => u64::from(every),
            Self::Below(_) | Self::Always | Self::Condition => u64::from(Probability::ONE),
        }
    }
}
