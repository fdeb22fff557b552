//! Test whether a rule's probability gives its endpoint the same share as the endpoints after it.

use crate::iptables::Probability;

/// Number of decimals with which releases from 1.17 on write a probability.
pub(crate) const TEN_DIGITS: usize = 10;
/// Number of decimals of releases up to 1.16: `%0.5f`.
pub(crate) const FIVE_DIGITS: usize = 5;

/// Tolerance of a probability in units of 2^-31: iptables rounds kube-proxy's value to the nearest threshold, and iptables-save rounds
/// again when it prints it.
const ROUNDED: u32 = 1;

/// Returns whether a threshold is that of 1/`to_come`, written with this many digits; `to_come` counts the rule's own endpoint and those
/// after it.
pub(crate) fn is_even(threshold: u32, to_come: usize, digits: usize) -> bool {
    even(to_come, digits).is_some_and(|even| threshold.abs_diff(even.threshold()) <= ROUNDED)
}

/// Returns the probability of 1/`to_come`, written with this many digits.
pub(crate) fn even(to_come: usize, digits: usize) -> Option<Probability> {
    Probability::from_number(format!("{:.digits$}", 1.0 / to_come as f64).parse().ok()?)
}
