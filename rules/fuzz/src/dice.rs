//! Reproducible random numbers.

/// A generator of random numbers (SplitMix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates the generator of one execution: each execution has its own, so that it can be repeated alone.
    pub fn of(seed: u64, execution: u64) -> Self {
        let mut dice = Self(seed);
        let start = dice.roll();
        Self(start ^ execution.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Returns the next 64 random bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.roll() % limit).unwrap_or(0)
    }

    /// Returns one of several items; `None` if there are none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
