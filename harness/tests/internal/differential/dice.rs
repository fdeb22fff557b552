//! Repeatable randomness.

/// A random number generator (SplitMix64). Its numbers depend only on the seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Independent dice for one of many items that are derived from one seed.
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed);
        Self(dice.throw() ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.throw() % limit as u64) as usize
    }

    /// A number in a range, excluding its end.
    pub(crate) fn within(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    /// True in one of `cases` cases.
    pub(crate) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of several things, of which there is at least one.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
