//! Sequential tests, which are valid at any number of interim looks and stop as soon as the result is clear.
//!
//! Two bets are placed on the flows. Each starts with a stake of 1 and is fair, so whenever it is stopped, it has reached 1/α with a
//! probability of at most α (Ville's inequality; Howard, Ramdas, McAuliffe and Sekhon, *Time-uniform, nonparametric, nonasymptotic
//! confidence sequences*, Annals of Statistics 49, 2021):
//!
//! - *that shares are wrong*: a mixture of all shares, weighted by a Dirichlet distribution around the stated ones, is compared with these
//!   (Lindon and Malek, *Anytime-valid inference for multinomial count data*, NeurIPS 2022). If the stated shares are right, this bet
//!   hardly ever wins much; if it has won 1/α, they are wrong, at a false-alarm rate of α.
//! - *that no endpoint is off by the bias to be found*: each share is compared with those that are off by exactly that (Wald, *Sequential
//!   tests of statistical hypotheses*, Annals of Mathematical Statistics 16, 1945). Once it has won against all of them, counting may end.
//!
//! The final test, at the maximum number of flows, gets half of the rate; the other half covers the interim looks.

use statrs::function::gamma::ln_gamma;

use super::binomial::{Interval, solve};
use super::fit::{Cell, Fit, Global, StatsError, check_counts, fit, possible};
use super::rate::{FalseAlarmRate, Goal};
use super::sample::sample_size;

/// The number of flows of a test with interim looks that never becomes clear: see [`conclude`].
///
/// # Errors
///
/// As [`sample_size`].
pub(crate) fn most_flows(shares: &[f64], goal: &Goal) -> Result<u64, StatsError> {
    let goal = Goal { power: 1.0 - missed(goal) / 2.0, false_alarm: goal.false_alarm.shared_by(2), ..*goal };
    sample_size(shares, &goal)
}

/// Whether counts are clear, so that counting may end before [`most_flows`]: they do not fit the shares, or an endpoint with the bias to be
/// found would have been detected by now.
///
/// # Errors
///
/// As [`fit`](fit()).
pub(crate) fn is_clear(counts: &[u64], shares: &[f64], goal: &Goal) -> Result<bool, StatsError> {
    check_counts(counts, shares)?;
    let flows: u64 = counts.iter().sum();
    let enough = (2.0 / missed(goal)).ln();
    let unbiased = counts.iter().zip(shares).filter(|(_, share)| **share > 0.0).all(|(&count, &share)| {
        let biased = [1.0 - goal.relative_bias, 1.0 + goal.relative_bias].map(|factor| share * factor);
        // No endpoint can get more than everything or less than nothing.
        let possible = biased.into_iter().filter(|biased| (0.0..=1.0).contains(biased));
        possible.into_iter().all(|biased| log_likelihood(count, flows, share, biased) >= enough)
    });
    Ok(unbiased || !fit_anytime(counts, shares, goal)?.agrees)
}

/// The result of counts with interim looks. From [`most_flows`] on they are compared with the shares by [`fit`](fit()), before that by the
/// sequential test; each gets half of the false-alarm rate.
///
/// # Errors
///
/// As [`fit`](fit()) and [`most_flows`].
pub(crate) fn conclude(counts: &[u64], shares: &[f64], goal: &Goal) -> Result<Fit, StatsError> {
    check_counts(counts, shares)?;
    if counts.iter().sum::<u64>() < most_flows(shares, goal)? {
        return fit_anytime(counts, shares, goal);
    }
    let half = fit(counts, shares, goal.false_alarm.shared_by(2))?;
    let p_value = (2.0 * half.p_value).min(1.0);
    Ok(Fit { p_value, rate: goal.false_alarm, agrees: p_value > goal.false_alarm.get(), ..half })
}

/// Compares counts with shares by a test that may be repeated after every flow, at half of the false-alarm rate.
fn fit_anytime(counts: &[u64], shares: &[f64], goal: &Goal) -> Result<Fit, StatsError> {
    let flows: u64 = counts.iter().sum();
    let possible = possible(shares);
    // Half of this rate is for single endpoints and half for the whole, as in `fit`.
    let each = goal.false_alarm.shared_by(4 * possible);
    let cell = |(&count, &share): (&u64, &f64)| {
        let prior = concentration(share, goal.relative_bias);
        let evidence = log_evidence(&[count, flows - count], &[share, 1.0 - share], prior);
        let interval = interval(count, flows, share, prior, each);
        Cell { count, share, p_value: chance(evidence), interval }
    };
    let cells: Vec<Cell> = counts.iter().zip(shares).map(cell).collect();
    let smallest_share = shares.iter().copied().filter(|share| *share > 0.0).fold(1.0, f64::min);
    let log_evidence = log_evidence(counts, shares, concentration(smallest_share, goal.relative_bias));
    let global = Global::Anytime { log_evidence, p_value: chance(log_evidence) };
    let smallest = cells.iter().map(|cell| cell.p_value).fold(1.0, f64::min);
    let p_value = (4.0 * (smallest * possible as f64).min(global.p_value())).min(1.0);
    Ok(Fit { flows, cells, global, p_value, rate: goal.false_alarm, agrees: p_value > goal.false_alarm.get() })
}

/// The probability that a bias may be missed.
fn missed(goal: &Goal) -> f64 {
    1.0 - goal.power
}

/// The probability that a bet ever wins this much.
fn chance(log_evidence: f64) -> f64 {
    (-log_evidence).exp().min(1.0)
}

/// The concentration of the mixture around a share, as a number of flows: its standard deviation is the bias to be found.
fn concentration(share: f64, relative_bias: f64) -> f64 {
    ((1.0 - share) / (share * relative_bias.powi(2))).clamp(1.0, 1e9)
}

/// The logarithm of the winnings of the bet against these shares: the likelihood of the Dirichlet mixture, relative to theirs.
fn log_evidence(counts: &[u64], shares: &[f64], prior: f64) -> f64 {
    let flows: u64 = counts.iter().sum();
    let mut sum = ln_gamma(prior) - ln_gamma(flows as f64 + prior);
    for (&count, &share) in counts.iter().zip(shares).filter(|(count, _)| **count > 0) {
        if share <= 0.0 {
            return f64::INFINITY;
        }
        let count = count as f64;
        sum += ln_gamma(count + prior * share) - ln_gamma(prior * share) - count * share.ln();
    }
    sum
}

/// The shares of one endpoint against which the bet has not won 1/rate: they contain the right one at all times together.
fn interval(count: u64, flows: u64, share: f64, prior: f64, rate: FalseAlarmRate) -> Interval {
    if share <= 0.0 || share >= 1.0 || flows == 0 {
        // There is no mixture around a share of 0 or 1, so the interval follows from the count alone.
        return super::binomial::interval(flows.max(1), count, rate.get());
    }
    let (wins, losses, limit) = (count as f64, (flows - count) as f64, -rate.get().ln());
    let mixture = log_evidence(&[count, flows - count], &[share, 1.0 - share], prior)
        + wins * share.ln()
        + losses * (1.0 - share).ln();
    let against = |share: f64| {
        let part = |count: f64, share: f64| if count > 0.0 { count * share.ln() } else { 0.0 };
        mixture - part(wins, share) - part(losses, 1.0 - share)
    };
    let observed = wins / flows as f64;
    let low = if count == 0 { 0.0 } else { solve(0.0, observed, |share| against(share) < limit) };
    let high = if count == flows { 1.0 } else { solve(observed, 1.0, |share| against(share) >= limit) };
    Interval { low, high }
}

/// The logarithm of the likelihood of a count at a share, relative to that at another.
fn log_likelihood(count: u64, flows: u64, share: f64, other: f64) -> f64 {
    let part = |count: u64, share: f64, other: f64| match count {
        0 => 0.0,
        _ if other <= 0.0 => f64::INFINITY,
        count => count as f64 * (share / other).ln(),
    };
    part(count, share, other) + part(flows - count, 1.0 - share, 1.0 - other)
}
