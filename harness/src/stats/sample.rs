//! The number of flows that a goal needs.

use statrs::distribution::{ContinuousCDF, Normal};

use super::binomial::{lower_tail, upper_tail};
use super::fit::{StatsError, check_shares};
use super::rate::{FalseAlarmRate, Goal};

/// A number of flows that no lab can send, returned if a goal needs more.
const MAX_FLOWS: u64 = 1_000_000_000_000;

/// The probability that all flows of a client reach one endpoint by chance. It is so small that a thousand affinity tests stay within a
/// run's false-alarm rate. The tests of a run do not share it, because then a scenario would need more flows when run together with others.
const BY_CHANCE: f64 = 1e-9;

/// The number of flows that show whether a client stays with one of this number of equally likely endpoints: the least n with k · k^-n ≤
/// 1e-9. If the number of endpoints is unknown, it is assumed to be two, the worst case; if there is only one, nothing can be tested, and
/// one flow is enough.
pub(crate) fn flows_to_distinguish(endpoints: usize) -> u64 {
    match endpoints {
        1 => 1,
        0 => flows_to_distinguish(2),
        k => 1 + (-BY_CHANCE.ln() / (k as f64).ln()).ceil() as u64,
    }
}

/// The number of flows after which each of this number of equally likely endpoints has got one, except with a probability as small as that
/// of [`flows_to_distinguish`]: the least n with k · (1 - 1/k)^n ≤ 1e-9.
pub(crate) fn flows_to_meet_all(endpoints: usize) -> u64 {
    match endpoints {
        0 | 1 => 1,
        k => ((BY_CHANCE / k as f64).ln() / (-1.0 / k as f64).ln_1p()).ceil() as u64,
    }
}

/// The number of flows after which [`fit`](super::fit()) finds a biased endpoint with the goal's power, whichever
/// endpoint and direction it is.
///
/// Starts from the normal approximation (Fleiss, Levin and Paik, *Statistical Methods for Rates and Proportions*,
/// section 2.5) and grows until the power of the exact test suffices. At most 10^12.
///
/// # Errors
///
/// If the shares are not a distribution, or bias or power is out of range.
pub(crate) fn sample_size(shares: &[f64], goal: &Goal) -> Result<u64, StatsError> {
    check(shares, goal.power)?;
    if goal.relative_bias.is_nan() || goal.relative_bias <= 0.0 {
        return Err(StatsError::Goal { name: "relative bias", value: goal.relative_bias, range: "more than 0" });
    }
    // A small share has the largest relative error; a large one may be the only one whose test has too little power.
    let side = side(shares, goal.false_alarm);
    let needed = extremes(shares).map(|share| {
        // The approximation does not cover a share without variance.
        let mut flows = if share < 1.0 { approximate(share, goal, side).max(1) } else { 1 };
        while flows < MAX_FLOWS && power(flows, share, goal.relative_bias, side) < goal.power {
            flows += flows / 200 + 1;
        }
        flows.min(MAX_FLOWS)
    });
    Ok(needed.max().unwrap_or(1))
}

fn check(shares: &[f64], power: f64) -> Result<(), StatsError> {
    check_shares(shares)?;
    if power > 0.0 && power < 1.0 {
        Ok(())
    } else {
        Err(StatsError::Goal { name: "power", value: power, range: "between 0 and 1" })
    }
}

/// The rate of one side of one endpoint's test: half of the whole rate is for endpoints, each of which has two sides.
fn side(shares: &[f64], rate: FalseAlarmRate) -> f64 {
    rate.shared_by(4 * shares.iter().filter(|share| **share > 0.0).count()).get()
}

/// The smallest and the greatest share that can be biased: an endpoint that should get everything can get less, but one that should get
/// nothing is detected by its first flow.
fn extremes(shares: &[f64]) -> impl Iterator<Item = f64> {
    let possible = shares.iter().copied().filter(|share| *share > 0.0);
    let smallest = possible.clone().min_by(f64::total_cmp);
    let greatest = possible.max_by(f64::total_cmp);
    let greatest = greatest.filter(|share| Some(*share) != smallest);
    smallest.into_iter().chain(greatest)
}

/// A number of flows somewhat below what is needed, by the normal approximation.
fn approximate(share: f64, goal: &Goal, side: f64) -> u64 {
    let normal = Normal::standard();
    let (z_alarm, z_power) = (-normal.inverse_cdf(side), normal.inverse_cdf(goal.power).max(0.0));
    let biased = share * (1.0 - goal.relative_bias.min(1.0));
    let deviations = z_alarm * (share * (1.0 - share)).sqrt() + z_power * (biased * (1.0 - biased)).sqrt();
    (0.9 * (deviations / (share - biased)).powi(2)) as u64
}

/// The probability that one endpoint's exact test finds it biased, in the direction that is harder to find.
fn power(flows: u64, share: f64, bias: f64, side: f64) -> f64 {
    let mean = flows as f64 * share;
    // The smallest count that is too large, and the largest that is too small.
    let too_many = partition(mean as u64, flows + 1, |count| upper_tail(flows, count, share) <= side);
    let enough = partition(0, mean as u64 + 1, |count| lower_tail(flows, count, share) > side);
    let less = share * (1.0 - bias);
    let found_less = if enough == 0 { 0.0 } else { lower_tail(flows, enough - 1, less.max(0.0)) };
    let more = share * (1.0 + bias);
    // A share above 1 is impossible, so it need not be detected.
    if more > 1.0 { found_less } else { found_less.min(upper_tail(flows, too_many, more)) }
}

/// The first number of a range at which a monotonic condition becomes true; the end if it never does.
fn partition(mut low: u64, mut high: u64, condition: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if condition(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
