//! Judging flows that were sent during a change.

use std::time::Duration;

use super::{Field, Findings, Judgment};
use crate::observation::{FlowSpan, StreamObservation};
use crate::scenario::{Bounds, DuringExpectation};
use crate::text::{counted, duration, grouped};

/// Returns every part of an expectation in words.
pub(crate) fn expected_parts(expectation: &DuringExpectation) -> Vec<(Field, String)> {
    let DuringExpectation { lost, rejected, stale, followed_within } = expectation;
    let counts = [(Field::Lost, lost), (Field::Rejected, rejected), (Field::Stale, stale)];
    let counts = counts.into_iter().filter_map(|(field, bounds)| Some((field, bounds_words((*bounds)?))));
    let within = followed_within.map(|time| (Field::FollowedWithin, within_words(time)));
    counts.chain(within).collect()
}

/// Compares the outcomes of the flows with every part of an expectation.
pub(crate) fn judge(expectation: &DuringExpectation, seen: &StreamObservation) -> Judgment {
    let mut findings = Findings { shown: vec![following_words(seen)], ..Findings::default() };
    let DuringExpectation { lost, rejected, stale, followed_within } = expectation;
    let none = FlowSpan::default();
    let counts = [
        (Field::Lost, lost, &seen.lost, "flows without a reply or rejection"),
        (Field::Rejected, rejected, &seen.rejected, "rejected flows"),
        (
            Field::Stale,
            stale,
            seen.stale.as_ref().unwrap_or(&none),
            "flows to an address that was no longer an endpoint",
        ),
    ];
    for (field, bounds, span, what) in counts {
        if let Some(bounds) = bounds.filter(|bounds| !bounds.allow(span.flows)) {
            let observed = format!("{} of {}", grouped(span.flows), counted(seen.sent, "flow"));
            findings.differ(field, bounds_words(bounds), observed, reason(what, span));
        }
    }
    if let Some(time) = *followed_within {
        let (observed, why) = match seen.follows {
            None => ("no flow with a new outcome".to_owned(), "the promise for these flows does not change"),
            Some(follows) => match follows.first {
                Some(first) if first <= time.as_secs_f64() => return findings.into_judgment(),
                Some(first) => (moment(first), "the first flow that followed the change started later"),
                None => (format!("none in {}", duration(seen.after)), "no flow followed the change"),
            },
        };
        findings.differ(Field::FollowedWithin, within_words(time), observed, why);
    }
    findings.into_judgment()
}

/// The outcomes of the flows, in one line: `250 flows at 100/s from node/worker: 250 answered, 0 lost, 0 rejected`.
pub(super) fn stream_words(seen: &StreamObservation) -> String {
    let from = seen.node.as_ref().map(|node| format!(" from node/{node}")).unwrap_or_default();
    let [sent, answered] = [counted(seen.sent, "flow"), grouped(seen.answered)];
    let of = |span: &FlowSpan, what: &str| {
        let when = when(span).map(|when| format!(" ({when})")).unwrap_or_default();
        format!("{} {what}{when}", grouped(span.flows))
    };
    let stale = seen.stale.filter(|stale| stale.flows > 0);
    let stale = stale.map(|stale| format!(", {}", of(&stale, "to a removed endpoint"))).unwrap_or_default();
    let [lost, rejected] = [of(&seen.lost, "lost"), of(&seen.rejected, "rejected")];
    format!("{sent} at {}/s{from}: {answered} answered, {lost}, {rejected}{stale}", seen.rate)
}

/// When flows followed the change, in one line.
fn following_words(seen: &StreamObservation) -> String {
    match seen.follows {
        None => "the promise for these flows does not change".to_owned(),
        Some(follows) => {
            let first = match follows.first {
                Some(first) => format!("the first flow that followed the change started {}", moment(first)),
                None => format!("no flow followed the change in {}", duration(seen.after)),
            };
            let last =
                follows.last_before.map(|last| format!("; the last flow with the previous outcome, {}", moment(last)));
            first + &last.unwrap_or_default()
        }
    }
}

/// The bounds on a number of flows, in words.
pub(super) fn bounds_words(Bounds { at_least, at_most }: Bounds) -> String {
    match at_most {
        Some(most) if most == at_least => counted(most, "flow"),
        Some(most) if at_least == 0 => format!("at most {}", counted(most, "flow")),
        Some(most) => format!("{} to {}", grouped(at_least), counted(most, "flow")),
        None => format!("at least {}", counted(at_least, "flow")),
    }
}

fn within_words(time: Duration) -> String {
    format!("a flow that follows the change within {}", duration(time))
}

/// Explains a number of flows that is out of bounds.
fn reason(what: &str, span: &FlowSpan) -> String {
    match when(span) {
        Some(when) => format!("{what} started {when}"),
        None => format!("there were no {what}"),
    }
}

/// When these flows started; `None` if there were none.
fn when(span: &FlowSpan) -> Option<String> {
    let (first, last) = (span.first?, span.last?);
    Some(if span.flows == 1 { moment(first) } else { format!("{} to {}", moment(first), moment(last)) })
}

/// A time relative to the change, given in seconds: `12 ms after the change`.
fn moment(seconds: f64) -> String {
    let time = duration(Duration::try_from_secs_f64(seconds.abs()).unwrap_or_default());
    if seconds < 0.0 { format!("{time} before the change") } else { format!("{time} after the change") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::observation::Following;

    fn seen() -> StreamObservation {
        StreamObservation {
            node: Some("worker".to_owned()),
            rate: 100,
            before: Duration::from_millis(500),
            after: Duration::from_secs(2),
            sent: 250,
            answered: 247,
            lost: FlowSpan { flows: 3, first: Some(-0.01), last: Some(0.02) },
            stale: Some(FlowSpan { flows: 1, first: Some(0.005), last: Some(0.005) }),
            follows: Some(Following { first: Some(0.03), last_before: Some(0.005) }),
            ..StreamObservation::default()
        }
    }

    fn exactly(flows: u64) -> Option<Bounds> {
        Some(Bounds { at_least: flows, at_most: Some(flows) })
    }

    #[rstest]
    #[case::exact(DuringExpectation { lost: exactly(3), ..Default::default() }, &[])]
    #[case::too_many(DuringExpectation { lost: exactly(0), ..Default::default() }, &[
        "lost: expected 0 flows, observed 3 of 250 flows: flows without a reply or rejection started 10 ms before the change to 20 ms after the change",
    ])]
    #[case::at_most(DuringExpectation { stale: Some(Bounds { at_least: 0, at_most: Some(1) }), ..Default::default() }, &[])]
    #[case::too_few(DuringExpectation { rejected: Some(Bounds { at_least: 2, at_most: None }), ..Default::default() }, &[
        "rejected: expected at least 2 flows, observed 0 of 250 flows: there were no rejected flows",
    ])]
    #[case::in_time(DuringExpectation { followed_within: Some(Duration::from_millis(30)), ..Default::default() }, &[])]
    #[case::too_late(DuringExpectation { followed_within: Some(Duration::from_millis(20)), ..Default::default() }, &[
        "followedWithin: expected a flow that follows the change within 20 ms, observed 30 ms after the change: the first flow that followed \
         the change started later",
    ])]
    fn every_part_is_judged(#[case] expectation: DuringExpectation, #[case] differences: &[&str]) {
        let judgment = judge(&expectation, &seen());
        assert_eq!(judgment.differences.iter().map(ToString::to_string).collect::<Vec<_>>(), differences);
        assert_eq!(judgment.held, differences.is_empty());
    }

    #[rstest]
    #[case::nothing_changes(None, "no flow with a new outcome")]
    #[case::nothing_follows(Some(Following::default()), "none in 2.00 s")]
    fn what_cannot_be_followed_is_no_success(#[case] follows: Option<Following>, #[case] observed: &str) {
        let expectation = DuringExpectation { followed_within: Some(Duration::from_secs(1)), ..Default::default() };
        let judgment = judge(&expectation, &StreamObservation { follows, ..seen() });
        assert_eq!(judgment.differences[0].observed, observed);
    }

    #[test]
    fn figures_say_when_flows_were_lost_and_followed() {
        assert_eq!(
            [stream_words(&seen()), following_words(&seen())],
            [
                "250 flows at 100/s from node/worker: 247 answered, 3 lost (10 ms before the change to 20 ms after the change), 0 rejected, \
                 1 to a removed endpoint (5 ms after the change)",
                "the first flow that followed the change started 30 ms after the change; the last flow with the previous outcome, 5 ms after the change",
            ]
        );
    }
}
