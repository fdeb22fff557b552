//! Numbers that are typed: the standard library's messages (`invalid digit found in string`) do not say what is expected.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A number in a range.
///
/// # Errors
///
/// Which numbers are expected.
#[doc(hidden)]
pub fn within<N: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<N>) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}
