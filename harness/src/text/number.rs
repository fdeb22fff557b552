//! Parses numbers with better messages than the standard library's (`invalid digit found in string`), which do not say what is expected.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Parses a number in a range.
///
/// # Errors
///
/// A message with the expected range.
#[doc(hidden)]
pub fn within<N: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<N>) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}
