//! Impairments of links: parsing of netem parameters.

use std::time::Duration;

use svclab_rules::cluster::{Impairment, Percentage};

use super::findings::Findings;
use super::times;
use crate::scenario::schema::{RawLink, RawTime};
use crate::yaml::At;

/// The maximum delay: a probe waits for packets in flight.
const LONGEST: Duration = Duration::from_secs(5);
/// The minimum rate: a small packet takes a tenth of a second.
const LOWEST_RATE: u64 = 8_000;
/// The keyword for no rate limit.
const UNLIMITED: &str = "unlimited";

/// Changes the impairment of a link by the parameters of an entry.
pub(crate) fn change(before: Impairment, raw: &RawLink, at: At<'_>, findings: &mut Findings) -> Impairment {
    let mut percentage = |text: &Option<String>, field: &str, before: Percentage| {
        text.as_ref().map_or(before, |text| parsed(text, at.field(field), findings).unwrap_or(before))
    };
    let loss = percentage(&raw.loss, "loss", before.loss);
    let duplicate = percentage(&raw.duplicate, "duplicate", before.duplicate);
    let reorder = percentage(&raw.reorder, "reorder", before.reorder);
    let mut time = |raw: &Option<RawTime>, field: &str, before: Duration| {
        raw.as_ref().map_or(before, |raw| delay(raw, at.field(field), findings).unwrap_or(before))
    };
    let delay = time(&raw.delay, "delay", before.delay);
    let jitter = time(&raw.jitter, "jitter", before.jitter);
    let rate =
        raw.rate.as_ref().map_or(before.rate, |text| rate(text, at.field("rate"), findings).unwrap_or(before.rate));
    let changed = Impairment { loss, delay, jitter, duplicate, reorder, rate };
    if changed.jitter > changed.delay {
        let message = "`jitter` is larger than `delay`";
        findings.wrong(
            at.first_of(&["jitter", "delay"]),
            message,
            "Set `jitter` to at most `delay`: no packet arrives before it is sent.",
        );
        return before;
    }
    if !changed.reorder.is_zero() && changed.delay.is_zero() {
        let message = "`reorder` needs a `delay`: packets that are not delayed overtake those that are";
        findings.wrong(at.first_of(&["reorder", "delay"]), message, "Add `delay`, for example `delay: 5ms`.");
        return before;
    }
    changed
}

/// Returns whether an entry has any of these parameters.
pub(crate) fn is_given(raw: &RawLink) -> bool {
    let RawLink { loss, delay, jitter, duplicate, reorder, rate, .. } = raw;
    [loss, duplicate, reorder, rate].into_iter().any(Option::is_some)
        || [delay, jitter].into_iter().any(Option::is_some)
}

fn parsed(text: &str, at: At<'_>, findings: &mut Findings) -> Option<Percentage> {
    let part = millionths(text).and_then(Percentage::from_millionths);
    if part.is_none() {
        let help = "Use a percentage from `0%` to `100%`, with at most four decimals.";
        findings.wrong(at, format!("`{text}` is not a percentage of packets"), help);
    }
    part
}

/// Parses a percentage into millionths.
fn millionths(text: &str) -> Option<u32> {
    const DIGITS: usize = 4;
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > DIGITS {
        return None;
    }
    let part: u32 = format!("{part:0<DIGITS$}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(part)
}

fn delay(raw: &RawTime, at: At<'_>, findings: &mut Findings) -> Option<Duration> {
    let time = times::time(raw, at, findings)?;
    let is_fit = time <= LONGEST;
    if !is_fit {
        let message = format!("`{}` is longer than {} s", raw.0, LONGEST.as_secs());
        findings.wrong(at, message, "Use a shorter duration.");
    }
    is_fit.then_some(time)
}

/// Parses a rate; the inner `None` means no limit.
fn rate(text: &str, at: At<'_>, findings: &mut Findings) -> Option<Option<u64>> {
    if text == UNLIMITED {
        return Some(None);
    }
    let bits = bits_per_second(text).filter(|bits| *bits >= LOWEST_RATE);
    if bits.is_none() {
        let help =
            "Use bits per second as tc(8) writes them, `8kbit` or more: `512kbit`, `10mbit`, `1gbit`; or `unlimited`.";
        findings.wrong(at, format!("`{text}` is not a valid link rate"), help);
    }
    bits.map(Some)
}

fn bits_per_second(text: &str) -> Option<u64> {
    let number = text.strip_suffix("bit")?;
    let (number, factor) = match number.strip_suffix(['k', 'm', 'g']) {
        Some(rest) if number.ends_with('k') => (rest, 1_000),
        Some(rest) if number.ends_with('m') => (rest, 1_000_000),
        Some(rest) => (rest, 1_000_000_000),
        None => (number, 1),
    };
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| number.parse::<u64>().ok()?.checked_mul(factor)).flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0%", Some(0))]
    #[case("10%", Some(100_000))]
    #[case("0.5%", Some(5_000))]
    #[case("99.9999%", Some(999_999))]
    #[case("100.0001%", Some(1_000_001))]
    #[case("0.00001%", None)]
    #[case("-1%", None)]
    #[case("10", None)]
    #[case(".5%", None)]
    #[case("5.%", None)]
    #[case("99999999999%", None)]
    fn percentages(#[case] text: &str, #[case] expected: Option<u32>) {
        assert_eq!(millionths(text), expected);
    }

    #[rstest]
    #[case("9600bit", Some(9_600))]
    #[case("512kbit", Some(512_000))]
    #[case("10mbit", Some(10_000_000))]
    #[case("2gbit", Some(2_000_000_000))]
    #[case("10mbps", None)]
    #[case("mbit", None)]
    #[case("10 mbit", None)]
    #[case("99999999999999999999gbit", None)]
    fn rates(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(bits_per_second(text), expected);
    }
}
