//! Numbers as option values, with messages that say what is expected, unlike the standard library's (`invalid digit found in string`).

use std::num::{NonZeroU32, NonZeroUsize};

pub(super) use svclab::text::within;

/// The largest count that an option accepts unless it has its own limit.
const MAX: usize = 1_000_000_000;

/// Parses a count, at least one.
pub(super) fn count(text: &str) -> Result<NonZeroUsize, String> {
    within(text, NonZeroUsize::MIN..=NonZeroUsize::new(MAX).unwrap_or(NonZeroUsize::MAX))
}

/// Parses an index, from 0.
pub(super) fn index(text: &str) -> Result<usize, String> {
    within(text, 0..=MAX)
}

/// Parses a seed.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    within(text, 0..=u64::MAX)
}

/// Parses the number of retries.
pub(super) fn retries(text: &str) -> Result<u32, String> {
    within(text, 0..=100)
}

/// Parses the number of repetitions, which is limited: a default from a repository's file must not keep a machine busy forever.
pub(super) fn repetitions(text: &str) -> Result<NonZeroU32, String> {
    within(text, NonZeroU32::MIN..=NonZeroU32::new(10_000).unwrap_or(NonZeroU32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_reported() {
        assert_eq!(count("x"), Err("expected a number from 1 to 1000000000".to_owned()));
        assert_eq!(count("0").err(), count("-1").err());
        assert_eq!((index("0"), seed("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        assert_eq!((retries("101").is_err(), repetitions("10000").map(NonZeroU32::get)), (true, Ok(10_000)));
    }
}
