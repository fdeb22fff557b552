//! Tests of independence: whether the endpoint of a flow depends on that of the previous flow, or on the source port.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::multinomial;
use super::rate::FalseAlarmRate;

/// A contingency table: how often each pair of two properties was counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de> + Ord, C: Deserialize<'de> + Ord"))]
pub(crate) struct Contingency<R, C> {
    counts: BTreeMap<(R, C), u64>,
}

impl<R, C> Default for Contingency<R, C> {
    fn default() -> Self {
        Self { counts: BTreeMap::new() }
    }
}

/// The result of a test of independence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Independence {
    /// The number of pairs counted.
    pub pairs: u64,
    /// G: twice the sum of observed · ln(observed / expected).
    pub statistic: f64,
    /// An upper bound on the probability of a G at least as great if the properties are independent, for any number of pairs.
    pub p_value: f64,
}

impl Independence {
    /// Whether the properties may be independent.
    pub(crate) fn agrees(&self, rate: FalseAlarmRate) -> bool {
        self.p_value > rate.get()
    }

    /// The failure in words: what the endpoint of a flow depends on, and with which certainty.
    pub(crate) fn words(&self, on: &str) -> String {
        let (statistic, chance) = (self.statistic, super::numbers::chance(self.p_value));
        format!("the endpoint of a flow depends on {on} (likelihood ratio G = {statistic:.1}, chance at most {chance})")
    }
}

impl<R: Ord + Copy, C: Ord + Copy> Contingency<R, C> {
    /// Adds a pair that was seen this number of times.
    pub(crate) fn add(&mut self, row: R, column: C, times: u64) {
        if times > 0 {
            *self.counts.entry((row, column)).or_default() += times;
        }
    }

    /// The sum of both.
    #[must_use]
    pub(crate) fn plus(mut self, other: Self) -> Self {
        other.counts.into_iter().for_each(|((row, column), times)| self.add(row, column, times));
        self
    }

    /// The number of pairs.
    pub(crate) fn pairs(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Tests whether the column depends on the row, for this number of possible columns. Given their rows, the columns
    /// of different pairs must be drawn independently of each other.
    ///
    /// `None` if there is nothing to test: fewer than two rows or columns.
    pub(crate) fn independence(&self, columns: usize) -> Option<Independence> {
        let (mut by_row, mut by_column, pairs) = (BTreeMap::new(), BTreeMap::new(), self.pairs());
        for (&(row, column), &count) in &self.counts {
            *by_row.entry(row).or_insert(0) += count;
            *by_column.entry(column).or_insert(0) += count;
        }
        let columns = columns.max(by_column.len());
        if by_row.len() < 2 || columns < 2 {
            return None;
        }
        let parts = self.counts.iter().map(|((row, column), &count)| {
            let expected = by_row[row] as f64 * by_column[column] as f64 / pairs as f64;
            count as f64 * (count as f64 / expected).ln()
        });
        let statistic = (2.0 * parts.sum::<f64>()).max(0.0);
        // Relative to the true shares instead of the observed ones, G would be even greater. That G is a sum of independent terms, one per
        // row, each with one degree of freedom less than there are columns; its bound is that of a single term with all degrees of freedom.
        let p_value = multinomial::bound(statistic, by_row.len() * (columns - 1) + 1);
        Some(Independence { pairs, statistic, p_value })
    }
}
