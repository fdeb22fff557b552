//! `numgen`: numbers that the kernel draws or counts, and what a map has for them.

use std::ops::{Deref, RangeInclusive};

/// What a map has for the numbers of `numgen`: `numgen random mod 3 vmap { 0 : goto a, 1-2 : goto b }`. It derefs to the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numgen<T> {
    /// How the kernel comes to a number.
    pub mode: NumgenMode,
    /// How many numbers there are, from 0; at least 1.
    pub modulus: u32,
    /// The numbers of each value, ascending. Where a number has no value, the rule does not match.
    pub numbers: Vec<RangeInclusive<u32>>,
    /// At least one.
    values: Vec<T>,
}

/// How the kernel comes to a number (`nft_numgen.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumgenMode {
    /// `random`: 32 random bits are multiplied by the modulus and cut to the number above the lowest 32 bits.
    Random,
    /// `inc`: one after the other.
    Incremental,
}

impl NumgenMode {
    /// nft's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Incremental => "inc",
        }
    }

    /// The mode of nft's word.
    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Random, Self::Incremental].into_iter().find(|mode| mode.as_str() == word)
    }
}

impl<T> Numgen<T> {
    /// A map's elements; nothing where there are none, where two have the same number, or where no number is drawn.
    pub(super) fn new(mode: NumgenMode, modulus: u32, mut elements: Vec<(RangeInclusive<u32>, T)>) -> Option<Self> {
        elements.sort_by_key(|(numbers, _)| *numbers.start());
        let (numbers, values): (Vec<_>, Vec<_>) = elements.into_iter().unzip();
        let is_ascending = numbers.iter().all(|range| range.start() <= range.end())
            && numbers.windows(2).all(|pair| pair[0].end() < pair[1].start());
        let has_values = numbers.first().is_some_and(|first| *first.start() < modulus);
        (is_ascending && has_values).then_some(Self { mode, modulus, numbers, values })
    }

    /// The same numbers with other values.
    pub(super) fn map<U>(&self, map: impl Fn(&T) -> U) -> Numgen<U> {
        let values = self.values.iter().map(map).collect();
        Numgen { mode: self.mode, modulus: self.modulus, numbers: self.numbers.clone(), values }
    }

    /// The same; nothing where a value becomes none.
    pub(super) fn try_map<U>(&self, map: impl Fn(&T) -> Option<U>) -> Option<Numgen<U>> {
        let values = self.values.iter().map(map).collect::<Option<_>>()?;
        Some(Numgen { mode: self.mode, modulus: self.modulus, numbers: self.numbers.clone(), values })
    }

    /// Whether each number has a value of its own, and all come as often: as kube-proxy writes it.
    pub fn is_even(&self) -> bool {
        let single = |(range, number): (&RangeInclusive<u32>, u32)| *range == (number..=number);
        self.mode == NumgenMode::Random
            && self.numbers.len() == self.modulus as usize
            && self.numbers.iter().zip(0..).all(single)
    }

    /// How many draws give each value, and how many draws there are: of random numbers 2^32, counted or all numbers alike, those of the modulus.
    pub(crate) fn draws(&self, counted: bool) -> (Vec<u32>, u64) {
        let modulus = u64::from(self.modulus);
        let (start, whole): (Box<dyn Fn(u64) -> u64>, u64) = match self.mode {
            // Those random numbers r with r * modulus / 2^32 of at least the number.
            NumgenMode::Random if counted && self.modulus > 1 => {
                (Box::new(move |number| (number << 32).div_ceil(modulus)), 1 << 32)
            }
            _ => (Box::new(|number| number), modulus),
        };
        let of = |range: &RangeInclusive<u32>| {
            let [first, end] =
                [u64::from(*range.start()), u64::from(*range.end()) + 1].map(|at| start(at.min(modulus)));
            // All of 2^32 draws are one more than there are numbers for.
            u32::try_from(end - first).unwrap_or(u32::MAX)
        };
        (self.numbers.iter().map(of).collect(), whole)
    }

    /// How many of the numbers have no value.
    pub fn without_value(&self) -> u32 {
        let end = |range: &RangeInclusive<u32>| (u64::from(*range.end()) + 1).min(u64::from(self.modulus));
        let with = self.numbers.iter().map(|range| end(range).saturating_sub(u64::from(*range.start()))).sum::<u64>();
        u32::try_from(u64::from(self.modulus) - with).unwrap_or(0)
    }
}

/// One number for each value, drawn by chance.
impl<T> From<Vec<T>> for Numgen<T> {
    fn from(values: Vec<T>) -> Self {
        let modulus = u32::try_from(values.len()).unwrap_or(u32::MAX);
        Self {
            mode: NumgenMode::Random,
            modulus,
            numbers: (0..modulus).map(|number| number..=number).collect(),
            values,
        }
    }
}

impl<T> Deref for Numgen<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}
