//! Exact tails of the binomial distribution, and confidence intervals for a share.
//!
//! The tails are summed term by term, from the count outwards: exact to about eight digits for up to 10^9 flows, even far out, where the
//! regularized incomplete beta function of common libraries has lost all digits or does not converge.

use serde::{Deserialize, Serialize};
use statrs::function::factorial::ln_binomial;

/// A confidence interval for a share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// The least share.
    pub(crate) low: f64,
    /// The greatest share.
    pub(crate) high: f64,
}

/// The probability of a count at least as far from the expected one as this, if the share is right: twice the smaller
/// tail. A test that fails if this is at most α fails by chance at a rate of at most α.
pub(crate) fn two_sided(flows: u64, count: u64, share: f64) -> f64 {
    (2.0 * lower_tail(flows, count, share).min(upper_tail(flows, count, share))).min(1.0)
}

/// The shares that [`two_sided`] does not reject at this rate (Clopper and Pearson, *Biometrika* 26, 1934).
pub(crate) fn interval(flows: u64, count: u64, rate: f64) -> Interval {
    let (observed, side) = (count as f64 / flows.max(1) as f64, rate / 2.0);
    let low = if count == 0 { 0.0 } else { solve(0.0, observed, |share| upper_tail(flows, count, share) > side) };
    let high = if count >= flows { 1.0 } else { solve(observed, 1.0, |share| lower_tail(flows, count, share) <= side) };
    Interval { low, high }
}

/// The point between two shares where a condition that is false at the first and true at the second becomes true.
pub(super) fn solve(mut low: f64, mut high: f64, condition: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if condition(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of this count or a smaller one.
pub(super) fn lower_tail(flows: u64, count: u64, share: f64) -> f64 {
    // Counting failures instead of successes gives the same tail from the other end.
    if count >= flows { 1.0 } else { upper_tail(flows, flows - count, 1.0 - share) }
}

/// The probability of this count or a greater one.
pub(super) fn upper_tail(flows: u64, count: u64, share: f64) -> f64 {
    if count == 0 || share >= 1.0 {
        return 1.0;
    }
    if count > flows || share <= 0.0 {
        return 0.0;
    }
    if count as f64 > flows as f64 * share {
        sum_up(flows, count, share)
    } else {
        // The other tail starts at the next smaller count; from the other end, it is an upper tail as well.
        1.0 - sum_up(flows, flows - count + 1, 1.0 - share)
    }
}

/// Sums the probabilities of a count above the mean and of all greater ones.
fn sum_up(flows: u64, count: u64, share: f64) -> f64 {
    let odds = share / (1.0 - share);
    let mut term =
        (ln_binomial(flows, count) + count as f64 * share.ln() + (flows - count) as f64 * (-share).ln_1p()).exp();
    let mut sum = term;
    for k in count..flows {
        term *= (flows - k) as f64 / (k + 1) as f64 * odds;
        sum += term;
        if term <= sum * 1e-16 {
            break;
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// All binomial coefficients of `n`, exactly.
    fn coefficients(n: u64) -> Vec<u128> {
        (0..n).fold(vec![1], |row, _| {
            let inner = row.windows(2).map(|pair| pair[0] + pair[1]);
            [1].into_iter().chain(inner).chain([1]).collect()
        })
    }

    #[test]
    fn tails_are_those_of_a_coin() {
        for n in [1, 2, 5, 20, 100] {
            let row = coefficients(n);
            for count in 0..=n {
                let exact = row[count as usize..].iter().map(|&c| c as f64).sum::<f64>() / 2_f64.powi(n as i32);
                let upper = upper_tail(n, count, 0.5);
                assert!((upper / exact - 1.0).abs() < 1e-10, "n {n}, count {count}: {upper} {exact}");
                let both = lower_tail(n, count, 0.5) + upper_tail(n, count + 1, 0.5);
                assert!((both - 1.0).abs() < 1e-10, "n {n}, count {count}: {both}");
            }
        }
    }

    #[rstest]
    // Summed with 60 decimal digits.
    #[case(1_000, 400, 1.0 / 3.0, 5.988277870041e-6)]
    #[case(50_000, 17_500, 1.0 / 3.0, 1.777445971530e-15)]
    #[case(1_000_000, 5_500, 0.005, 1.569670337772e-12)]
    #[case(10, 10, 0.1, 1e-10)]
    fn tails_far_out(#[case] flows: u64, #[case] count: u64, #[case] share: f64, #[case] expected: f64) {
        let tail = upper_tail(flows, count, share);
        assert!((tail / expected - 1.0).abs() < 1e-8, "{tail:e}");
    }

    #[rstest]
    #[case(100, 30, 0.05)]
    #[case(41_200, 13_700, 1e-7)]
    #[case(10, 0, 0.05)]
    #[case(10, 10, 0.05)]
    fn an_interval_ends_where_the_test_rejects(#[case] flows: u64, #[case] count: u64, #[case] rate: f64) {
        let Interval { low, high } = interval(flows, count, rate);
        let observed = count as f64 / flows as f64;
        assert!(low <= observed && observed <= high);
        for (end, outside) in [(low, low * 0.999), (high, high * 1.001)] {
            let inside = end + (observed - end) * 0.001;
            assert!(two_sided(flows, count, inside) > rate, "{end}");
            assert!(outside <= 0.0 || outside >= 1.0 || two_sided(flows, count, outside) < rate, "{end}");
        }
    }

    #[test]
    fn certain_shares_have_certain_counts() {
        assert_eq!(two_sided(10, 0, 0.0), 1.0);
        assert_eq!(two_sided(10, 1, 0.0), 0.0);
        assert_eq!(two_sided(10, 10, 1.0), 1.0);
        assert_eq!(two_sided(10, 9, 1.0), 0.0);
    }
}
