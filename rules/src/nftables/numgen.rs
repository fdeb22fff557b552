//! `numgen`: numbers that the kernel draws or counts, and the map of their values.

use std::fmt::Write;
use std::ops::{Deref, RangeInclusive};

use super::text::{Line, join};

/// The map of `numgen`'s numbers to values: `numgen random mod 3 vmap { 0 : goto a, 1-2 : goto b }`. It derefs to the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numgen<T> {
    /// How the kernel generates a number.
    pub mode: NumgenMode,
    /// The modulus: numbers are from 0 to one less; at least 1.
    pub modulus: u32,
    /// The numbers of each value, ascending. If a number has no value, the rule does not match.
    pub numbers: Vec<RangeInclusive<u32>>,
    /// The values, at least one.
    values: Vec<T>,
}

/// How the kernel generates a number (`nft_numgen.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumgenMode {
    /// `random`: 32 random bits are multiplied by the modulus and shifted right by 32 bits.
    Random,
    /// `inc`: one after the other.
    Incremental,
}

impl NumgenMode {
    /// Returns nft's keyword.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Incremental => "inc",
        }
    }

    /// Parses nft's keyword.
    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Random, Self::Incremental].into_iter().find(|mode| mode.as_str() == word)
    }
}

impl<T> Numgen<T> {
    /// Creates a map from elements; nothing if there are none, if two have the same number, or if the modulus is 0.
    pub(super) fn new(mode: NumgenMode, modulus: u32, mut elements: Vec<(RangeInclusive<u32>, T)>) -> Option<Self> {
        elements.sort_by_key(|(numbers, _)| *numbers.start());
        let (numbers, values): (Vec<_>, Vec<_>) = elements.into_iter().unzip();
        let is_ascending = numbers.iter().all(|range| range.start() <= range.end())
            && numbers.windows(2).all(|pair| pair[0].end() < pair[1].start());
        let has_values = numbers.first().is_some_and(|first| *first.start() < modulus);
        (is_ascending && has_values).then_some(Self { mode, modulus, numbers, values })
    }

    /// Parses what follows `numgen`: `random mod 2 map { 0 : a, 1-2 : b }`, with the keyword of the map.
    pub(super) fn parse<'a>(
        map: &str,
        line: &mut Line<'_, 'a>,
        read: impl Fn(&mut Line<'_, 'a>) -> Option<T>,
    ) -> Option<Self> {
        let mode = NumgenMode::of(line.next())?;
        line.take("mod").then_some(())?;
        let modulus = line.next().parse().ok()?;
        (line.take(map) && line.take("{")).then_some(())?;
        let mut elements = Vec::new();
        loop {
            let number = line.next();
            let (first, last) = number.split_once('-').unwrap_or((number, number));
            let numbers = first.parse().ok()?..=last.parse().ok()?;
            line.take(":").then_some(())?;
            elements.push((numbers, read(line)?));
            if !line.take(",") {
                break;
            }
        }
        line.take("}").then_some(())?;
        Self::new(mode, modulus, elements)
    }

    /// Prints `numgen random mod 3 vmap { 0 : a, 1-2 : b }`, with the keyword of the map.
    pub(super) fn print(&self, map: &str, out: &mut String, word: impl Fn(&T) -> String) {
        let _ = write!(out, "numgen {} mod {} {map} {{ ", self.mode.as_str(), self.modulus);
        let elements: Vec<_> = self.numbers.iter().zip(&self.values).collect();
        join(out, ", ", &elements, |out, (numbers, value)| {
            let _ = match (numbers.start(), numbers.end()) {
                (first, last) if first == last => write!(out, "{first} : {}", word(value)),
                (first, last) => write!(out, "{first}-{last} : {}", word(value)),
            };
        });
        out.push_str(" }");
    }

    /// Returns the values, to change them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut()
    }

    /// Returns whether each number has its own value, as kube-proxy writes it, so all are equally likely.
    pub fn is_even(&self) -> bool {
        let single = |(range, number): (&RangeInclusive<u32>, u32)| *range == (number..=number);
        self.mode == NumgenMode::Random
            && self.numbers.len() == self.modulus as usize
            && self.numbers.iter().zip(0..).all(single)
    }

    fn is_scaled(&self) -> bool {
        self.mode == NumgenMode::Random && self.modulus > 1
    }

    /// Returns the number of draws for a range of numbers: as the kernel scales random bits, and with all numbers equally likely.
    fn parts(&self, range: &RangeInclusive<u32>) -> [u32; 2] {
        let modulus = u64::from(self.modulus);
        // Those random numbers r with r * modulus / 2^32 of at least the number.
        let scaled = |number: u64| if self.is_scaled() { (number << 32).div_ceil(modulus) } else { number };
        let [first, end] = [u64::from(*range.start()), u64::from(*range.end()) + 1].map(|at| at.min(modulus));
        // The total of 2^32 draws does not fit into 32 bits.
        [scaled(end) - scaled(first), end - first].map(|draws| u32::try_from(draws).unwrap_or(u32::MAX))
    }

    /// Returns the number of draws for a value, by position: of 2^32 random values, or of a counter's round.
    pub(crate) fn draws(&self, value: usize) -> Option<u32> {
        Some(self.parts(self.numbers.get(value)?)[0])
    }

    /// Returns how many numbers have no value.
    pub(crate) fn without_value(&self) -> u32 {
        let end = |range: &RangeInclusive<u32>| (u64::from(*range.end()) + 1).min(u64::from(self.modulus));
        let with = self.numbers.iter().map(|range| end(range).saturating_sub(u64::from(*range.start()))).sum::<u64>();
        u32::try_from(u64::from(self.modulus) - with).unwrap_or(0)
    }
}

/// The number of draws for each value of a map, computed once so that walks only multiply. It derefs to the values.
#[derive(Debug, Clone)]
pub(super) struct Draws<T> {
    values: Vec<T>,
    /// Whether the kernel counts instead of drawing at random.
    pub(super) is_counter: bool,
    /// The draws of each value: as the kernel scales random bits, and with all numbers equally likely.
    parts: Vec<[u32; 2]>,
    /// The sums of these.
    sums: [u64; 2],
    /// The total number of draws: 2^32 for random bits, otherwise the modulus.
    wholes: [u64; 2],
}

impl<T> Draws<T> {
    /// Computes the draws of a map; `compile` converts its values.
    pub(super) fn of<U>(numgen: &Numgen<U>, compile: impl Fn(&U) -> T) -> Self {
        let parts: Vec<_> = numgen.numbers.iter().map(|range| numgen.parts(range)).collect();
        let sums = [0, 1].map(|at| parts.iter().map(|part| u64::from(part[at])).sum());
        let modulus = u64::from(numgen.modulus);
        let wholes = [if numgen.is_scaled() { 1 << 32 } else { modulus }, modulus];
        let is_counter = numgen.mode == NumgenMode::Incremental;
        Self { values: numgen.values.iter().map(compile).collect(), is_counter, parts, sums, wholes }
    }

    /// Creates a single value for every draw.
    pub(super) fn only(value: T) -> Self {
        Self { values: vec![value], is_counter: false, parts: vec![[1, 1]], sums: [1, 1], wholes: [1, 1] }
    }

    /// Returns the values, each with its draws out of all that give a value; with `counted`, the draws are the kernel's exact ones.
    pub(super) fn shares(&self, counted: bool) -> impl DoubleEndedIterator<Item = (&T, u32, u64)> {
        let at = usize::from(!counted);
        let drawn = self.values.iter().zip(&self.parts).filter(move |(_, part)| part[at] > 0);
        drawn.map(move |(value, part)| (value, part[at], self.sums[at]))
    }

    /// Returns how many of all draws give a value, if some give none.
    pub(super) fn lacking(&self, counted: bool) -> Option<(u32, u64)> {
        let at = usize::from(!counted);
        let sum = u32::try_from(self.sums[at]).unwrap_or(u32::MAX);
        (self.sums[at] < self.wholes[at]).then_some((sum, self.wholes[at]))
    }
}

impl<T> Deref for Draws<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

/// One number for each value, drawn at random.
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
