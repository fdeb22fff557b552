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

/// Returns whether a probability is 1/`to_come` as some release writes it, or as a person does who shortens it.
pub(crate) fn fits(probability: Probability, to_come: usize) -> bool {
    [TEN_DIGITS, FIVE_DIGITS].into_iter().any(|digits| is_even(probability.threshold(), to_come, digits))
        || probability.is_typed_as(to_come, TEN_DIGITS)
}

/// Returns n if a probability is 1/n: of several that fit few digits, the nearest.
pub(crate) fn one_in(probability: Probability) -> Option<usize> {
    let nearest = nearest(probability);
    fits(probability, nearest).then_some(nearest)
}

/// Returns the n whose 1/n is nearest to a probability.
pub(crate) fn nearest(probability: Probability) -> usize {
    (f64::from(Probability::ONE) / f64::from(probability.threshold().max(1))).round() as usize
}
