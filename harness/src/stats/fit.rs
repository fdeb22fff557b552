//! Goodness-of-fit test of counts against exact shares.

use serde::{Deserialize, Serialize};

use super::binomial::{Interval, interval, two_sided};
use super::multinomial;
use super::rate::FalseAlarmRate;

/// The result of a goodness-of-fit test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fit {
    /// The number of flows counted.
    pub(crate) flows: u64,
    /// Each endpoint, in the order of the input.
    pub(crate) cells: Vec<Cell>,
    /// All endpoints together.
    pub(crate) global: Global,
    /// An upper bound on the probability that correct shares deviate at least this much, corrected for the number of
    /// endpoints.
    pub(crate) p_value: f64,
    /// The requested false-alarm rate.
    pub(crate) rate: FalseAlarmRate,
    /// Whether the shares can be right: the p-value is greater than the rate.
    pub(crate) agrees: bool,
}

/// One endpoint of a [`Fit`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Flows that reached it.
    pub(crate) count: u64,
    /// Its exact share.
    pub(crate) share: f64,
    /// The probability of a count at least as far from the expected one, for this endpoint alone.
    pub(crate) p_value: f64,
    /// The shares that fit the count. The intervals of all endpoints hold simultaneously, at the rate of the whole test.
    pub(crate) interval: Interval,
}

/// All counts compared with all shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Global {
    /// By the exact multinomial test.
    Exact {
        /// The probability of an outcome that is no more likely.
        p_value: f64,
    },
    /// By the likelihood ratio statistic, if there are too many outcomes to enumerate.
    LikelihoodRatio {
        /// G, twice the sum of observed · ln(observed / expected).
        statistic: f64,
        /// An upper bound on the probability of a G at least this large, at any number of flows.
        p_value: f64,
    },
    /// By a bet that may be evaluated after every flow: see [`conclude`](super::conclude).
    Anytime {
        /// The logarithm of the winnings of the bet against the shares.
        log_evidence: f64,
        /// An upper bound on the probability that it ever wins this much.
        p_value: f64,
    },
}

impl Global {
    /// The probability of counts at least as far from the shares, or an upper bound on it.
    pub(crate) fn p_value(&self) -> f64 {
        match self {
            Self::Exact { p_value } | Self::LikelihoodRatio { p_value, .. } | Self::Anytime { p_value, .. } => *p_value,
        }
    }
}

impl Cell {
    /// The expected count for the share.
    pub(crate) fn expected(&self, flows: u64) -> f64 {
        self.share * flows as f64
    }

    /// The greatest relative bias that fits the count: 0.04 means that the real share may be 4 % more or less.
    pub(crate) fn greatest_bias(&self) -> f64 {
        if self.share <= 0.0 {
            return 0.0;
        }
        (self.interval.high / self.share - 1.0).max(1.0 - self.interval.low / self.share)
    }
}

impl Fit {
    /// The greatest relative bias of any endpoint that fits the counts.
    pub(crate) fn greatest_bias(&self) -> f64 {
        self.cells.iter().map(Cell::greatest_bias).fold(0.0, f64::max)
    }
}

/// An error in the input of a test of shares.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StatsError {
    /// The numbers of counts and shares differ.
    #[error("{counts} counts for {shares} shares")]
    Lengths {
        /// Number of counts.
        counts: usize,
        /// Number of shares.
        shares: usize,
    },
    /// A share lies outside of 0 to 1.
    #[error("a share is {0}; it must lie between 0 and 1")]
    Share(f64),
    /// The shares do not add up to 1.
    #[error("the shares add up to {0}, not to 1")]
    Sum(f64),
    /// Nothing was counted.
    #[error("no flow was counted")]
    NoFlows,
    /// A bias or a power that no test can have.
    #[error("{name} is {value}; it must be {range}")]
    Goal {
        /// The name of the value.
        name: &'static str,
        /// The value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
}

/// The tolerance for the sum of shares, for rounding.
const ROUNDING: f64 = 1e-6;

/// Rejects shares that are not a distribution.
pub(super) fn check_shares(shares: &[f64]) -> Result<(), StatsError> {
    if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return Err(StatsError::Share(*share));
    }
    let sum: f64 = shares.iter().sum();
    if (sum - 1.0).abs() > ROUNDING { Err(StatsError::Sum(sum)) } else { Ok(()) }
}

/// Rejects counts that do not match the shares, shares that are not a distribution, and empty counts.
pub(super) fn check_counts(counts: &[u64], shares: &[f64]) -> Result<(), StatsError> {
    if counts.len() != shares.len() {
        return Err(StatsError::Lengths { counts: counts.len(), shares: shares.len() });
    }
    check_shares(shares)?;
    if counts.iter().all(|count| *count == 0) { Err(StatsError::NoFlows) } else { Ok(()) }
}

/// The number of endpoints with a share. Others cannot raise a false alarm, so they need no part of the rate.
pub(super) fn possible(shares: &[f64]) -> usize {
    shares.iter().filter(|share| **share > 0.0).count()
}

/// Compares counts with exact shares. A share of 0 is a destination that must not get any flow.
///
/// If the shares are right, the test fails at most at the given rate, whatever the number of flows. Half of the rate is
/// spent on single endpoints and half on the whole, so that both one bad endpoint and many small shifts are found.
///
/// # Errors
///
/// If the lists differ in length, the shares are not a distribution, or nothing was counted.
pub(crate) fn fit(counts: &[u64], shares: &[f64], rate: FalseAlarmRate) -> Result<Fit, StatsError> {
    check_counts(counts, shares)?;
    let flows: u64 = counts.iter().sum();
    let possible = possible(shares);
    let each = rate.shared_by(2 * possible);
    let cells: Vec<Cell> = counts
        .iter()
        .zip(shares)
        .map(|(&count, &share)| Cell {
            count,
            share,
            p_value: two_sided(flows, count, share),
            interval: interval(flows, count, each.get()),
        })
        .collect();
    let global = fit_whole(counts, shares);
    let smallest = cells.iter().map(|cell| cell.p_value).fold(1.0, f64::min);
    let p_value = (2.0 * (smallest * possible as f64).min(global.p_value())).min(1.0);
    Ok(Fit { flows, cells, global, p_value, rate, agrees: p_value > rate.get() })
}

fn fit_whole(counts: &[u64], shares: &[f64]) -> Global {
    let (counts, shares): (Vec<u64>, Vec<f64>) =
        counts.iter().zip(shares).filter(|(count, share)| **share > 0.0 || **count > 0).unzip();
    if shares.contains(&0.0) {
        return Global::Exact { p_value: 0.0 };
    }
    if let Some(p_value) = multinomial::exact(&counts, &shares) {
        return Global::Exact { p_value };
    }
    let statistic = multinomial::likelihood_ratio(&counts, &shares);
    Global::LikelihoodRatio { statistic, p_value: multinomial::bound(statistic, counts.len()) }
}
