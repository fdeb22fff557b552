//! Tests of all counts at once: an exact test if the outcomes can be enumerated, and a bound that always holds.

use statrs::function::factorial::{ln_binomial, ln_factorial};

/// The maximum number of outcomes that are enumerated: about a millisecond.
const MAX_OUTCOMES: f64 = 20_000.0;

/// The exact multinomial test: the probability of an outcome that is no more likely than this one, if the shares are
/// right. `None` if there are too many outcomes. Every share must be greater than 0.
pub(super) fn exact(counts: &[u64], shares: &[f64]) -> Option<f64> {
    let flows: u64 = counts.iter().sum();
    // Ways to spread n flows over k endpoints: n + k - 1 choose k - 1.
    if ln_binomial(flows + counts.len() as u64 - 1, counts.len() as u64 - 1) > MAX_OUTCOMES.ln() {
        return None;
    }
    let logs: Vec<f64> = shares.iter().map(|share| share.ln()).collect();
    let whole = ln_factorial(flows);
    let observed = counts.iter().zip(&logs).fold(whole, |sum, (count, log)| sum + cell(*count, *log));
    // Outcomes that are equally likely must not differ by a rounding error.
    let limit = observed + 1e-9;
    Some(sum_unlikely(flows, &logs, whole, limit).min(1.0))
}

/// The contribution of a cell to the logarithm of an outcome's probability.
fn cell(count: u64, log_share: f64) -> f64 {
    count as f64 * log_share - ln_factorial(count)
}

/// Sums the probabilities of all ways to spread flows over the cells that are no likelier than the limit.
fn sum_unlikely(flows: u64, logs: &[f64], so_far: f64, limit: f64) -> f64 {
    match logs {
        [] => 0.0,
        [last] => {
            let log = so_far + cell(flows, *last);
            if log <= limit { log.exp() } else { 0.0 }
        }
        [first, rest @ ..] => {
            (0..=flows).map(|count| sum_unlikely(flows - count, rest, so_far + cell(count, *first), limit)).sum()
        }
    }
}

/// The likelihood ratio statistic G: twice the sum of observed · ln(observed / expected). Every share must be greater than 0.
pub(super) fn likelihood_ratio(counts: &[u64], shares: &[f64]) -> f64 {
    let flows = counts.iter().sum::<u64>() as f64;
    let parts = counts.iter().zip(shares).filter(|(count, _)| **count > 0);
    let sum: f64 = parts.map(|(count, share)| *count as f64 * (*count as f64 / (flows * share)).ln()).sum();
    (2.0 * sum).max(0.0)
}

/// A bound on the probability of a G at least this great, for any number of flows and any shares:
/// e^(-G/2) · (e · G / 2(k-1))^(k-1) with k cells (Agrawal, *Finite-Sample Concentration of the Multinomial in
/// Relative Entropy*, IEEE Transactions on Information Theory 66, 2020; G / 2 is flows · relative entropy).
pub(super) fn bound(statistic: f64, cells: usize) -> f64 {
    let (half, freedom) = (statistic / 2.0, cells.saturating_sub(1) as f64);
    if half <= freedom { 1.0 } else { (freedom - half + freedom * (half / freedom.max(1.0)).ln()).exp().min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_flows_over_two_endpoints() {
        // 3:0 and 0:3 have 1/8 each, 2:1 and 1:2 have 3/8 each.
        assert!((exact(&[3, 0], &[0.5, 0.5]).unwrap() - 0.25).abs() < 1e-12);
        assert!((exact(&[2, 1], &[0.5, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(exact(&[1_000_000, 1_000_000, 1_000_000], &[1.0 / 3.0; 3]), None);
    }

    /// All ways to spread flows over cells.
    fn outcomes(flows: u64, cells: usize) -> Vec<Vec<u64>> {
        if cells == 1 {
            return vec![vec![flows]];
        }
        let with =
            |first: u64| outcomes(flows - first, cells - 1).into_iter().map(move |rest| [vec![first], rest].concat());
        (0..=flows).flat_map(with).collect()
    }

    #[test]
    fn the_bound_holds_for_every_outcome() {
        for (flows, shares) in
            [(1, vec![0.5_f64, 0.5]), (12, vec![0.2, 0.3, 0.5]), (30, vec![0.02, 0.08, 0.9]), (8, vec![0.25; 4])]
        {
            let whole = ln_factorial(flows);
            let probability = |counts: &[u64]| {
                counts.iter().zip(&shares).fold(whole, |sum, (count, share)| sum + cell(*count, share.ln())).exp()
            };
            let all = outcomes(flows, shares.len());
            let weighed: Vec<_> = all.iter().map(|c| (likelihood_ratio(c, &shares), probability(c))).collect();
            assert!((weighed.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
            for (statistic, _) in &weighed {
                let chance: f64 = weighed.iter().filter(|(g, _)| g >= statistic).map(|(_, p)| p).sum();
                assert!(chance <= bound(*statistic, shares.len()) * (1.0 + 1e-9), "{flows} {shares:?} {statistic}");
            }
        }
    }

    #[test]
    fn the_exact_test_keeps_its_rate() {
        let shares: [f64; 3] = [0.2, 0.3, 0.5];
        let whole = ln_factorial(12);
        for rate in [0.2, 0.05, 0.01, 1e-4] {
            let rejected: f64 = outcomes(12, 3)
                .into_iter()
                .filter(|counts| exact(counts, &shares).unwrap() <= rate)
                .map(|counts| {
                    counts.iter().zip(&shares).fold(whole, |sum, (c, share)| sum + cell(*c, share.ln())).exp()
                })
                .sum();
            assert!(rejected <= rate && rejected > 0.0, "{rate}: {rejected}");
        }
    }
}
