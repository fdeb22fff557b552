//! Whether a rule's probability gives its endpoint as much as those to come.

use crate::iptables::Probability;

/// Digits after the point with which releases from 1.17 on write a probability.
pub(crate) const TEN_DIGITS: usize = 10;
/// The digits of releases up to 1.16: `%0.5f`.
pub(crate) const FIVE_DIGITS: usize = 5;

/// By how much a probability may be off in units of 2^-31: iptables rounds what kube-proxy writes to the nearest
/// threshold, and what iptables-save shows of it once more.
const ROUNDED: u32 = 1;

/// Whether a threshold is that of one in so many endpoints that are to come, its own included, if the probability is
/// written with this many digits.
pub(crate) fn is_even(threshold: u32, to_come: usize, digits: usize) -> bool {
    let even = format!("{:.digits$}", 1.0 / to_come as f64).parse().ok().and_then(Probability::from_number);
    even.is_some_and(|even| threshold.abs_diff(even.threshold()) <= ROUNDED)
}
