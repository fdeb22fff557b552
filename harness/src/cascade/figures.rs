//! Numbers of a cascade as text.

use svclab_rules::cascade::{Cascade, Chance, Step};
use svclab_rules::walk::Share;

use crate::text::grouped;

/// Number of decimals of a percentage. The last one is about a fifth of the probability of a single draw, 1 in 2^31.
const DIGITS: usize = 8;

/// Formats a share as a percentage: `33.33333335 %`.
pub(super) fn percent(share: Share) -> String {
    format!("{:.DIGITS$} %", share.to_f64() * 100.0)
}

/// Formats a share as a fraction, if that is short: `1/3`, `1`.
pub(super) fn short_fraction(share: Share) -> Option<String> {
    const LONGEST: u128 = 1000;
    share.fraction().filter(|(_, denominator)| *denominator <= LONGEST).map(|_| share.to_string())
}

/// Returns the maximum error of [`percent`], in percentage points.
pub(super) fn bound(cascade: &Cascade) -> f64 {
    let rounded = cascade.steps.iter().map(|step| step.share.error()).fold(0.0, f64::max);
    0.5 * 10_f64.powi(-(DIGITS as i32)) + rounded * 100.0
}

/// Formats a deviation as a percentage of the even share: `0`, `+4.7e-8 %`, `-12.5000 %`.
pub(super) fn deviation(deviation: f64) -> String {
    let percent = deviation * 100.0;
    match percent.abs() {
        // Below the precision of a floating-point share.
        size if size < 1e-12 => "0".to_owned(),
        size if size < 1e-4 => format!("{percent:+.1e} %"),
        _ => format!("{percent:+.4} %"),
    }
}

/// Formats the number of draws that match: `715,827,883`.
pub(super) fn threshold(chance: Chance) -> String {
    match chance {
        Chance::Condition | Chance::Nth { .. } => "-".to_owned(),
        chance => grouped(u64::from(chance.threshold())),
    }
}

/// Returns the service port with its protocol: `default/web:http tcp`.
pub(super) fn title(cascade: &Cascade) -> String {
    match cascade.protocol {
        Some(protocol) => format!("{} {}", cascade.service, protocol.as_str()),
        None => cascade.service.clone(),
    }
}

/// Describes which clients shares apply to with session affinity, and whether returning clients keep their endpoint.
pub(super) fn affinity(cascade: &Cascade) -> &'static str {
    if cascade.keeps_affinity() {
        "Returning clients keep their endpoint: shares are those of new clients."
    } else {
        "Not all returning clients keep their endpoint: shares are those of new clients."
    }
}

/// Lists some of the frontends whose connections reach a cascade.
pub(super) fn frontends(cascade: &Cascade) -> String {
    const LISTED: usize = 4;
    let mut listed: Vec<String> = cascade.frontends.iter().take(LISTED).map(ToString::to_string).collect();
    let more = cascade.frontends.len().saturating_sub(LISTED);
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    listed.join(", ")
}

/// Abbreviates a long cascade: returns the first steps, the number omitted, and the last steps.
pub(super) fn folded(cascade: &Cascade, most: usize) -> (&[Step], usize, &[Step]) {
    const LAST: usize = 2;
    let steps = cascade.steps.as_slice();
    if steps.len() <= most {
        return (steps, 0, &[]);
    }
    let (first, rest) = steps.split_at(most - LAST);
    let (between, last) = rest.split_at(rest.len() - LAST);
    (first, between.len(), last)
}
