//! Pearson's chi-square test, with its small-count condition.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Expected counts below this are put together before the test (Cochran, *Biometrics* 10, 1954).
const SMALLEST_EXPECTED: f64 = 5.0;

/// What Pearson's test says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    /// The sum of (observed - expected)² / expected.
    pub statistic: f64,
    /// One less than the number of groups.
    pub degrees: usize,
    /// The probability of a statistic as great, if the shares are right; approximate.
    pub p_value: f64,
    /// How many endpoints were put together with others, because too few flows were expected for each.
    pub merged: usize,
}

/// Pearson's test of counts against shares. Groups of fewer than five expected flows are put together, the smallest
/// first.
///
/// `None` where fewer than two groups are left, and where lists differ in length.
pub fn chi_square(counts: &[u64], shares: &[f64]) -> Option<ChiSquare> {
    let flows = counts.iter().sum::<u64>() as f64;
    let mut cells: Vec<(f64, f64)> =
        shares.iter().zip(counts).map(|(share, count)| (share * flows, *count as f64)).collect();
    cells.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(f64, f64, usize)> = Vec::with_capacity(cells.len());
    for (expected, observed) in cells {
        match groups.last_mut() {
            Some(last) if last.0 < SMALLEST_EXPECTED => {
                *last = (last.0 + expected, last.1 + observed, last.2 + 1);
            }
            _ => groups.push((expected, observed, 1)),
        }
    }
    if counts.len() != shares.len() || groups.len() < 2 || groups.iter().any(|group| group.0 < SMALLEST_EXPECTED) {
        return None;
    }
    let statistic = groups.iter().map(|(expected, observed, _)| (observed - expected).powi(2) / expected).sum();
    let degrees = groups.len() - 1;
    let p_value = ChiSquared::new(degrees as f64).ok()?.sf(statistic);
    let merged = groups.iter().filter(|group| group.2 > 1).map(|group| group.2).sum();
    Some(ChiSquare { statistic, degrees, p_value, merged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_textbook_example() {
        // A die thrown 60 times: statistic 13.4 with 5 degrees of freedom.
        let die = chi_square(&[5, 8, 9, 8, 10, 20], &[1.0 / 6.0; 6]).unwrap();
        assert!((die.statistic - 13.4).abs() < 1e-9);
        assert_eq!((die.degrees, die.merged), (5, 0));
        assert!((die.p_value - 0.019_9).abs() < 1e-4, "{}", die.p_value);
    }

    #[test]
    fn small_expected_counts_are_put_together() {
        let found = chi_square(&[1, 2, 3, 94], &[0.01, 0.02, 0.03, 0.94]).unwrap();
        assert_eq!((found.degrees, found.merged, found.statistic), (1, 3, 0.0));
        assert_eq!(chi_square(&[1, 2], &[0.5, 0.5]), None);
        assert_eq!(chi_square(&[100], &[1.0]), None);
        assert_eq!(chi_square(&[10, 90], &[1.0]), None);
    }
}
