//! Times as steps have them.

use std::time::Duration;

/// A time as Go writes it, in whole seconds or milliseconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let time = number.parse().ok()?;
    match text.strip_prefix(number)? {
        "s" => Some(Duration::from_secs(time)),
        "ms" => Some(Duration::from_millis(time)),
        _ => None,
    }
}
