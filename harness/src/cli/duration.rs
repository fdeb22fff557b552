//! Durations on the command line.

use std::time::Duration;

/// Reads a duration: a number and its unit, `ms`, `s`, `m` or `h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(EXPECTED.to_owned()),
    };
    let number: f64 = text[..text.len() - unit.len()].parse().map_err(|_| EXPECTED.to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| "the duration is too long".to_owned())?;
    if time.is_zero() { Err("the duration is zero".to_owned()) } else { Ok(time) }
}

const EXPECTED: &str = "expected a number with the unit `ms`, `s`, `m` or `h`, as 30s or 1.5m";

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("500ms", Some(500))]
    #[case("30s", Some(30_000))]
    #[case("1.5m", Some(90_000))]
    #[case("2h", Some(7_200_000))]
    #[case("30", None)]
    #[case("s", None)]
    #[case("-1s", None)]
    #[case("0s", None)]
    #[case("1.2.3s", None)]
    #[case("99999999999999999999h", None)]
    #[case("30 s", None)]
    fn a_duration_has_a_unit(#[case] text: &str, #[case] millis: Option<u64>) {
        assert_eq!(duration(text).ok(), millis.map(Duration::from_millis));
    }
}
