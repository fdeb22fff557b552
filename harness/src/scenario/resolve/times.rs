//! Times in steps.

use std::time::Duration;

use super::findings::Findings;
use crate::scenario::schema::RawTime;
use crate::yaml::At;

/// Parses a time in Go's format, in whole seconds or milliseconds. Any other text is an error.
pub(super) fn time(RawTime(text): &RawTime, at: At<'_>, findings: &mut Findings) -> Option<Duration> {
    let time = parse(text);
    if time.is_none() {
        let help = "Use seconds or milliseconds, for example `2s` or `500ms`.";
        findings.wrong(at, format!("`{text}` is not a valid duration"), help);
    }
    time
}

fn parse(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let time = number.parse().ok()?;
    match text.strip_prefix(number)? {
        "s" => Some(Duration::from_secs(time)),
        "ms" => Some(Duration::from_millis(time)),
        _ => None,
    }
}
