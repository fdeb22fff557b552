//! Flows that were sent during a change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::observation::{FlowSpan, Following, StreamObservation, TimelineRow};

/// The outcomes of a probe's flows that were sent at a fixed rate during a change.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct During<'a> {
    /// The node that the sender is on; `null` for an outside host.
    node: Option<&'a str>,
    /// The requested rate, in flows per second.
    rate: u32,
    /// How long flows were sent before the change, in seconds.
    before: f64,
    /// How long flows were sent after the change, in seconds.
    after: f64,
    /// The number of flows sent. Each of them is answered, lost or rejected.
    sent: u64,
    /// The number of flows that were answered.
    answered: u64,
    /// The flows that got neither a reply nor a rejection.
    lost: Flows,
    /// The flows that were rejected.
    rejected: Flows,
    /// The flows that started after the change and were delivered to an address that is no longer an endpoint, answered or not; `null` if
    /// the destination is not a Service.
    stale: Option<Flows>,
    /// How flows followed the change; `null` if the promise for them does not change.
    followed: Option<Follows>,
    /// The longest pause between two flows, in seconds.
    longest_pause: f64,
    /// The number of slots of equal length in `timeline`, which starts with the first flow.
    timeline_parts: usize,
    /// The outcomes of flows over time.
    timeline: Vec<Row<'a>>,
}

/// A subset of the flows, and when they started: in seconds relative to the change, negative before it.
#[derive(Serialize, JsonSchema)]
struct Flows {
    /// The number of flows.
    flows: u64,
    /// When the first started; `null` if there are none.
    first: Option<f64>,
    /// When the last started; `null` if there are none.
    last: Option<f64>,
}

/// When flows followed a change, in seconds relative to it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Follows {
    /// When the first flow started whose outcome is promised only after the change; `null` if none did.
    first: Option<f64>,
    /// When the last flow started, after the change, whose outcome is promised only before it; `null` if none did.
    last_before: Option<f64>,
}

/// A row of the timeline: the flows with one outcome over time.
#[derive(Serialize, JsonSchema)]
struct Row<'a> {
    /// The endpoint (`pod/web:8080`), or `rejected`, or `lost`.
    name: &'a str,
    /// `answered`; `stale` if they started after the change and an address that is no longer an endpoint answered; `rejected`; or `lost`.
    fate: &'static str,
    /// The number of flows that started in each slot.
    counts: &'a [u32],
}

impl<'a> From<&'a StreamObservation> for During<'a> {
    fn from(seen: &'a StreamObservation) -> Self {
        Self {
            node: seen.node.as_deref(),
            rate: seen.rate,
            before: seen.before.as_secs_f64(),
            after: seen.after.as_secs_f64(),
            sent: seen.sent,
            answered: seen.answered,
            lost: seen.lost.into(),
            rejected: seen.rejected.into(),
            stale: seen.stale.map(Flows::from),
            followed: seen.follows.map(|Following { first, last_before }| Follows { first, last_before }),
            longest_pause: seen.longest_pause.as_secs_f64(),
            timeline_parts: seen.timeline.first().map_or(0, |row| row.counts.len()),
            timeline: seen.timeline.iter().map(Row::from).collect(),
        }
    }
}

impl From<FlowSpan> for Flows {
    fn from(FlowSpan { flows, first, last }: FlowSpan) -> Self {
        Self { flows, first, last }
    }
}

impl<'a> From<&'a TimelineRow> for Row<'a> {
    fn from(row: &'a TimelineRow) -> Self {
        Self { name: &row.name, fate: row.fate.as_str(), counts: &row.counts }
    }
}
