//! Flows during a change: their rate, times, and expectations.

use std::time::Duration;

use svclab_rules::cluster::Protocol;

use super::findings::Findings;
use super::lookup::Scene;
use super::probes::{ResolvedProbe, node_of};
use super::times;
use crate::scenario::model::{Bounds, DuringExpectation, flows_at_rate};
use crate::scenario::schema::{RawBounds, RawDuring, RawExpect, RawProbe, RawRate, RawRejected, RawTime};
use crate::text::grouped;
use crate::yaml::At;

/// The highest rate of a probe: about a third of what one lab can send and follow on one CPU.
const MAX_PER_SECOND: u32 = 1_000;
/// The default rate.
const PER_SECOND: u32 = 100;
/// The default and maximum times before and after the change.
const BEFORE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
const AFTER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Maximum number of flows of all probes of a step: each has its own source port, and a lab has about 32,000.
const MAX_FLOWS: u64 = 20_000;

/// The times and number of flows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) rate: u32,
    pub(crate) before: Duration,
    pub(crate) after: Duration,
}

/// Resolves the rate and the times, for this many probes.
pub(crate) fn timing(raw: &RawDuring, probes: usize, at: At<'_>, findings: &mut Findings) -> Timing {
    let rate = raw.rate.as_ref().map_or(Some(PER_SECOND), |raw| rate(raw, at.field("rate"), findings));
    let mut time = |raw: Option<&RawTime>, field: &str, (default, longest): (Duration, Duration)| {
        raw.map_or(Some(default), |raw| within(raw, longest, at.field(field), findings))
    };
    let before = time(raw.before.as_ref(), "before", BEFORE);
    let after = time(raw.after.as_ref(), "after", AFTER);
    if let (Some(rate), Some(before), Some(after)) = (rate, before, after) {
        let all = flows_at_rate(rate, before + after).saturating_mul(probes as u64);
        if all > MAX_FLOWS {
            let message =
                format!("`during` would send {} flows; a step may send at most {}", grouped(all), grouped(MAX_FLOWS));
            findings.wrong(at.key(), message, "Lower `rate`, shorten `before` or `after`, or send fewer probes.");
        }
    }
    Timing { rate: rate.unwrap_or(PER_SECOND), before: before.unwrap_or(BEFORE.0), after: after.unwrap_or(AFTER.0) }
}

fn rate(RawRate(text): &RawRate, at: At<'_>, findings: &mut Findings) -> Option<u32> {
    let number = text.strip_suffix("/s").filter(|number| !number.is_empty());
    let Some(number) = number.filter(|number| number.chars().all(|letter| letter.is_ascii_digit())) else {
        let help = "Write a whole number of flows per second, for example `100/s`.";
        findings.wrong(at, format!("`{text}` is not a rate"), help);
        return None;
    };
    let rate = number.parse().ok().filter(|rate| (1..=MAX_PER_SECOND).contains(rate));
    if rate.is_none() {
        let help = format!("Use a rate from 1/s to {MAX_PER_SECOND}/s.");
        findings.wrong(at, format!("the rate `{text}` is out of range"), help);
    }
    rate
}

/// Resolves a time that is not zero and not longer than `longest`.
fn within(raw: &RawTime, longest: Duration, at: At<'_>, findings: &mut Findings) -> Option<Duration> {
    let time = times::time(raw, at, findings)?;
    let is_fit = !time.is_zero() && time <= longest;
    if !is_fit {
        let help = format!("Use a duration from 1ms to {}s.", longest.as_secs());
        findings.wrong(at, format!("the duration `{}` is out of range", raw.0), help);
    }
    is_fit.then_some(time)
}

/// Reports fields of a probe that many new flows cannot have.
pub(crate) fn check_repeatable(raw: &RawProbe, at: At<'_>, findings: &mut Findings) {
    let fixed = [
        ("sourcePort", raw.source_port.is_some(), "each flow has a source port of its own"),
        ("flows", raw.flows.is_some(), "`rate`, `before` and `after` determine the number of flows"),
        ("tcpFlags", raw.tcp_flags.is_some(), "each flow is a new connection"),
        ("size", raw.size.is_some(), "they are small"),
        ("dontFragment", raw.dont_fragment.is_some(), "they are small"),
        ("fragments", raw.fragments.is_some(), "they are small"),
    ];
    for (field, _, why) in fixed.into_iter().filter(|(_, is_given, _)| *is_given) {
        let message = format!("`{field}` cannot be used with `during`: {why}");
        findings.wrong(at.field(field).key(), message, format!("Omit `{field}`."));
    }
}

/// Reports probes of which only one flow can be in flight.
pub(crate) fn check_together(resolved: &ResolvedProbe, scene: &Scene<'_, '_>, at: At<'_>, findings: &mut Findings) {
    let is_process = node_of(&resolved.probe.from, scene).is_some();
    if resolved.probe.protocol == Protocol::Sctp && is_process {
        let message = "SCTP flows of a process on a node can only be sent one after the other";
        findings.wrong(at.field("from"), message, "Send from a pod without `hostNetwork` or from `host/NAME`.");
    }
}

/// Resolves the expectation for the flows of each probe.
pub(crate) fn expectation(
    raw: &RawExpect,
    has_services: bool,
    at: At<'_>,
    findings: &mut Findings,
) -> DuringExpectation {
    for field in RawExpect::OF_PROBE {
        if at.has(field) && !RawExpect::OF_DURING.contains(&field) {
            let message = format!("`{field}` cannot be used with `during`");
            findings.wrong(at.field(field).key(), message, "Use `lost`, `rejected`, `stale` and `followedWithin`.");
        }
    }
    if !RawExpect::OF_DURING.iter().any(|field| at.has(field)) {
        let help = "Add at least one of `lost`, `rejected`, `stale` and `followedWithin`, or omit `expect`.";
        findings.missing(at, "`expect` has nothing that applies to flows during a change", help);
    }
    if raw.stale.is_some() && !has_services {
        let message = "`stale` counts flows to endpoints of a Service, but a probe here is not sent to a Service";
        findings.wrong(at.field("stale").key(), message, "Send to an address of a Service, or omit `stale`.");
    }
    let rejected = match &raw.rejected {
        Some(RawRejected::Flows(flows)) => Some(flows),
        Some(RawRejected::Any(_) | RawRejected::How(_)) => {
            let message = "with `during`, `rejected` is a number of flows";
            findings.wrong(at.field("rejected"), message, "Use a number, for example `rejected: 0`.");
            None
        }
        None => None,
    };
    let mut bounds = |raw: Option<&RawBounds>, field: &str| raw.map(|raw| bounds(raw, at.field(field), findings));
    let [lost, rejected, stale] = [(raw.lost.as_ref(), "lost"), (rejected, "rejected"), (raw.stale.as_ref(), "stale")]
        .map(|(raw, field)| bounds(raw, field));
    let within = |raw: &RawTime| within(raw, AFTER.1, at.field("followedWithin"), findings);
    DuringExpectation { lost, rejected, stale, followed_within: raw.followed_within.as_ref().and_then(within) }
}

/// Resolves bounds of a number of flows.
pub(super) fn bounds(raw: &RawBounds, at: At<'_>, findings: &mut Findings) -> Bounds {
    let (at_least, at_most) = match raw {
        RawBounds::Exactly(flows) => return Bounds { at_least: *flows, at_most: Some(*flows) },
        RawBounds::Within(range) => (range.at_least, range.at_most),
    };
    if at_least.is_none() && at_most.is_none() {
        findings.missing(at, "these bounds allow any number", "Add `atMost` or `atLeast`, or write a number.");
    }
    if let (Some(least), Some(most)) = (at_least, at_most)
        && least > most
    {
        let message = format!("`atLeast` {least} exceeds `atMost` {most}");
        findings.wrong(at, message, "Set `atLeast` to at most `atMost`.");
    }
    Bounds { at_least: at_least.unwrap_or(0), at_most }
}
