//! Error rates that the user specifies.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::numbers::power_of_ten;

/// The probability of a failure although nothing is wrong: greater than 0, less than 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct FalseAlarmRate(f64);

impl FalseAlarmRate {
    /// One in a million.
    pub const DEFAULT: Self = Self(1e-6);

    /// Creates a rate; `None` unless it is between 0 and 1, both exclusive.
    pub fn new(rate: f64) -> Option<Self> {
        (rate > 0.0 && rate < 1.0).then_some(Self(rate))
    }

    /// The rate as a number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The rate of each of several tests that together may fail by chance at this rate (Bonferroni's correction). It
    /// holds whether or not the tests depend on each other.
    ///
    /// Holm's correction (*Scandinavian Journal of Statistics* 6, 1979) rejects more, but only once one test has failed at this rate, which
    /// is its first step: no additional run would fail. And each test must know its rate before it starts, because it determines the number
    /// of its flows, and is judged as soon as it ends.
    #[must_use]
    pub(crate) fn shared_by(self, tests: usize) -> Self {
        Self((self.0 / tests.max(1) as f64).max(f64::MIN_POSITIVE))
    }
}

impl Default for FalseAlarmRate {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for FalseAlarmRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0.001 { write!(f, "{}", power_of_ten(self.0)) } else { write!(f, "{}", self.0) }
    }
}

/// The bias that a test must be able to find, and its error rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The smallest relative bias of one endpoint's share that must be found: 0.05 means 5 % more or less than its
    /// share. More than 0.
    pub relative_bias: f64,
    /// The probability that it is found: greater than 0, less than 1.
    pub power: f64,
    /// The probability of a failure although nothing is wrong.
    pub false_alarm: FalseAlarmRate,
}

impl Default for Goal {
    /// 5 %, found with probability 0.999, at a false alarm in a million runs.
    fn default() -> Self {
        Self { relative_bias: 0.05, power: 0.999, false_alarm: FalseAlarmRate::DEFAULT }
    }
}
