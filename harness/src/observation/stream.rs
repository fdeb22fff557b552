//! Flows that are sent at a fixed rate while the cluster changes, and their outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svclab_rules::promise::PromisedOutcome;

use super::{FlowObservation, ObservedOutcome};

/// The number of slots in a stream's timeline.
const SLOTS: usize = 100;
/// The maximum number of endpoints with a row of their own in a timeline.
const MAX_ROWS: usize = 12;

/// The outcomes of a probe's flows that were sent during a change. Each flow that was sent is answered, lost or rejected.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamObservation {
    /// The node that the sender is on; `None` for an outside host.
    pub node: Option<String>,
    /// The requested rate, in flows per second.
    pub rate: u32,
    /// How long flows were sent before the change.
    pub before: Duration,
    /// How long flows were sent after the change.
    pub after: Duration,
    /// Flows sent.
    pub sent: u64,
    /// Flows that were answered.
    pub answered: u64,
    /// Flows that got neither a reply nor a rejection.
    pub lost: FlowSpan,
    /// Flows that were rejected.
    pub rejected: FlowSpan,
    /// Flows that started after the change and were delivered to an address that is no longer an endpoint; `None` if the destination is not
    /// a Service.
    pub stale: Option<FlowSpan>,
    /// How flows followed the change; `None` if the promise is the same before and after it.
    pub follows: Option<Following>,
    /// The longest pause between two flows.
    pub longest_pause: Duration,
    /// The outcomes of flows over time, in slots of equal length.
    pub timeline: Vec<TimelineRow>,
}

/// A subset of the flows: how many, and when the first and the last of them started, in seconds relative to the change.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowSpan {
    /// The number of flows.
    pub flows: u64,
    /// When the first started.
    pub first: Option<f64>,
    /// When the last started.
    pub last: Option<f64>,
}

/// When flows followed a change, in seconds relative to it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Following {
    /// When the first flow started whose outcome is promised only after the change. If nothing is promised after the change: whose outcome
    /// is not promised before it.
    pub first: Option<f64>,
    /// When the last flow started whose outcome is promised only before the change.
    pub last_before: Option<f64>,
}

/// A row of a timeline: the flows with one outcome over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// The endpoint (`pod/web:8080`), or `rejected`, or `lost`.
    pub name: String,
    /// Their outcome.
    pub fate: StreamOutcome,
    /// The number of flows that started in each slot.
    pub counts: Vec<u32>,
}

/// The outcome of a flow of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StreamOutcome {
    /// An endpoint answered.
    Answered,
    /// It started after the change, and an address that is no longer an endpoint answered.
    Stale,
    /// It was rejected.
    Rejected,
    /// It got no reply.
    Lost,
}

impl StreamOutcome {
    /// The name in machine-readable reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Stale => "stale",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
        }
    }
}

/// A flow of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamedFlow {
    /// When it started, in seconds relative to the change.
    pub at: f64,
    /// Its observed outcome.
    pub seen: FlowObservation,
}

/// The promise for flows in one state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Promised {
    /// They are delivered to one of these.
    Delivered(BTreeSet<SocketAddr>),
    /// They are rejected.
    Rejected,
    /// They are lost.
    Lost,
    /// They are rejected or lost.
    Fail,
    /// Nothing.
    Nothing,
}

impl Promised {
    /// Reduces a promise to what the flows of a stream can show.
    pub(crate) fn of(outcome: &PromisedOutcome) -> Self {
        match outcome {
            PromisedOutcome::Delivered { endpoints, .. } => {
                Self::Delivered(endpoints.iter().map(|endpoint| endpoint.address).collect())
            }
            PromisedOutcome::Rejected(_) => Self::Rejected,
            PromisedOutcome::Dropped => Self::Lost,
            PromisedOutcome::Fails => Self::Fail,
            _ => Self::Nothing,
        }
    }

    fn is_kept_by(&self, flow: &FlowObservation) -> bool {
        match (self, fate(flow)) {
            (Self::Delivered(endpoints), _) => destination(flow).is_some_and(|(_, at)| endpoints.contains(&at)),
            (Self::Rejected, fate) => fate == StreamOutcome::Rejected,
            (Self::Lost, fate) => fate == StreamOutcome::Lost,
            (Self::Fail, fate) => matches!(fate, StreamOutcome::Rejected | StreamOutcome::Lost),
            (Self::Nothing, _) => false,
        }
    }
}

/// The data that a stream is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamContext {
    /// The node that the sender is on.
    pub node: Option<String>,
    /// The rate, in flows per second.
    pub rate: u32,
    /// The times before and after the change.
    pub time: (Duration, Duration),
    /// The promises before and after the change.
    pub promised: (Promised, Promised),
    /// The endpoints after the change, if the destination is a Service.
    pub endpoints: Option<BTreeSet<SocketAddr>>,
}

impl StreamContext {
    /// Summarizes the flows of a probe, given in the order in which they started.
    pub(crate) fn observe(self, flows: &[StreamedFlow]) -> StreamObservation {
        let timeline = self.timeline(flows);
        let of = |chosen: &dyn Fn(&StreamedFlow) -> bool| FlowSpan::of(flows.iter().filter(|flow| chosen(flow)));
        let is = |wanted: StreamOutcome| move |flow: &StreamedFlow| fate(&flow.seen) == wanted;
        let (promised_before, promised_after) = &self.promised;
        let follows = (promised_before != promised_after).then(|| {
            let of_change =
                |chosen: &dyn Fn(&FlowObservation) -> bool| of(&|flow| flow.at >= 0.0 && chosen(&flow.seen));
            let is_before = |flow: &FlowObservation| promised_before.is_kept_by(flow);
            let is_after = |flow: &FlowObservation| promised_after.is_kept_by(flow);
            // If nothing is promised after the change, every new outcome follows it.
            let first = match promised_after {
                Promised::Nothing => of_change(&|flow| !is_before(flow)).first,
                _ => of_change(&|flow| is_after(flow) && !is_before(flow)).first,
            };
            Following { first, last_before: of_change(&|flow| is_before(flow) && !is_after(flow)).last }
        });
        let stale = self.endpoints.is_some().then(|| of(&|flow| self.is_stale(flow)));
        StreamObservation {
            sent: flows.len() as u64,
            answered: of(&is(StreamOutcome::Answered)).flows,
            lost: of(&is(StreamOutcome::Lost)),
            rejected: of(&is(StreamOutcome::Rejected)),
            stale,
            follows,
            longest_pause: longest_pause(flows),
            timeline,
            node: self.node,
            rate: self.rate,
            before: self.time.0,
            after: self.time.1,
        }
    }

    /// Whether a flow started after the change and was delivered to an address that is no longer an endpoint.
    fn is_stale(&self, flow: &StreamedFlow) -> bool {
        let Some(endpoints) = &self.endpoints else { return false };
        flow.at >= 0.0 && destination(&flow.seen).is_some_and(|(_, at)| !endpoints.contains(&at))
    }

    /// The rows: answered flows by endpoint, with removed endpoints last, then all other flows.
    fn timeline(&self, flows: &[StreamedFlow]) -> Vec<TimelineRow> {
        let mut rows: BTreeMap<(StreamOutcome, String), Vec<u32>> = BTreeMap::new();
        let whole = (self.time.0 + self.time.1).as_secs_f64().max(f64::MIN_POSITIVE);
        for flow in flows {
            let (fate, name) = match (fate(&flow.seen), destination(&flow.seen)) {
                (StreamOutcome::Answered, Some((name, _))) => {
                    (if self.is_stale(flow) { StreamOutcome::Stale } else { StreamOutcome::Answered }, name)
                }
                (fate, _) => (fate, fate.as_str().to_owned()),
            };
            let part = (flow.at + self.time.0.as_secs_f64()) / whole;
            let slot = ((part * SLOTS as f64) as usize).min(SLOTS - 1);
            rows.entry((fate, name)).or_insert_with(|| vec![0; SLOTS])[slot] += 1;
        }
        let mut timeline: Vec<TimelineRow> = Vec::new();
        for ((fate, name), counts) in rows {
            let alike = timeline.iter().filter(|row| row.fate == fate).count();
            match timeline.last_mut().filter(|row| row.fate == fate && alike == MAX_ROWS) {
                Some(last) => {
                    "other endpoints".clone_into(&mut last.name);
                    last.counts.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
                }
                None => timeline.push(TimelineRow { name, fate, counts }),
            }
        }
        timeline
    }
}

impl FlowSpan {
    fn of<'f>(flows: impl Iterator<Item = &'f StreamedFlow>) -> Self {
        flows.fold(Self::default(), |sum, flow| Self {
            flows: sum.flows + 1,
            first: sum.first.or(Some(flow.at)),
            last: Some(flow.at),
        })
    }
}

/// The longest time between two flows, in the order in which they started.
pub(crate) fn longest_pause(flows: &[StreamedFlow]) -> Duration {
    let pauses = flows.windows(2).map(|pair| pair[1].at - pair[0].at);
    Duration::try_from_secs_f64(pauses.fold(0.0, f64::max)).unwrap_or_default()
}

/// The outcome of a flow, as its sender sees it.
fn fate(flow: &FlowObservation) -> StreamOutcome {
    match (&flow.outcome, &flow.contradiction, flow.reply) {
        (ObservedOutcome::Rejected(_), ..) | (_, Some(_), _) => StreamOutcome::Rejected,
        (_, None, Some(_)) => StreamOutcome::Answered,
        (_, None, None) => StreamOutcome::Lost,
    }
}

/// The destination of a flow: the receiver with its port, and the address.
fn destination(flow: &FlowObservation) -> Option<(String, SocketAddr)> {
    let delivery = match &flow.outcome {
        ObservedOutcome::Delivered(delivery) => delivery,
        ObservedOutcome::Duplicated(deliveries) => deliveries.first()?,
        _ => return None,
    };
    Some((format!("{}:{}", delivery.at, delivery.destination.port()), delivery.destination))
}

#[cfg(test)]
mod tests {
    use svclab_rules::cluster::Protocol;

    use super::*;
    use crate::observation::{Delivery, RejectKind, Rejection};

    /// A flow with its start time and the number of the endpoint that answers, 0 for none.
    fn flow(at: f64, endpoint: u8) -> StreamedFlow {
        let vip: SocketAddr = "10.96.0.80:80".parse().unwrap();
        let destination = SocketAddr::new([10, 244, 2, endpoint].into(), 8080);
        let delivery = Delivery { at: format!("pod/web-{endpoint}"), source: vip, destination, fragments: Some(1) };
        let outcome = match endpoint {
            0 => ObservedOutcome::Dropped { at: "node/worker".to_owned(), left_cluster: false },
            _ => ObservedOutcome::Delivered(delivery),
        };
        let reply = (endpoint > 0).then_some(vip);
        let seen = FlowObservation {
            protocol: Protocol::Tcp,
            source: "10.244.1.2:33000".parse().unwrap(),
            destination: vip,
            outcome,
            contradiction: None,
            reply,
            path: Vec::new(),
        };
        StreamedFlow { at, seen }
    }

    fn rejected(at: f64) -> StreamedFlow {
        let by = [10, 244, 1, 1].into();
        let rejection = Rejection { kind: RejectKind::PortUnreachable, what: "port unreachable".to_owned(), by };
        let mut flow = flow(at, 0);
        flow.seen.outcome = ObservedOutcome::Rejected(rejection);
        flow
    }

    fn endpoints(numbers: &[u8]) -> BTreeSet<SocketAddr> {
        numbers.iter().map(|number| SocketAddr::new([10, 244, 2, *number].into(), 8080)).collect()
    }

    fn observed(before: Promised, after: Promised, left: &[u8], flows: &[StreamedFlow]) -> StreamObservation {
        let context = StreamContext {
            node: Some("worker".to_owned()),
            rate: 10,
            time: (Duration::from_secs(1), Duration::from_secs(1)),
            promised: (before, after),
            endpoints: Some(endpoints(left)),
        };
        context.observe(flows)
    }

    #[test]
    fn flows_follow_when_they_reach_what_was_no_endpoint_before() {
        let [before, after] = [[1, 2], [2, 3]].map(|numbers| Promised::Delivered(endpoints(&numbers)));
        let flows = [flow(-0.2, 1), flow(-0.1, 2), flow(0.1, 1), flow(0.2, 2), flow(0.3, 1), flow(0.4, 3)];
        let seen = observed(before, after, &[2, 3], &flows);
        assert_eq!(seen.stale, Some(FlowSpan { flows: 2, first: Some(0.1), last: Some(0.3) }));
        assert_eq!(seen.follows, Some(Following { first: Some(0.4), last_before: Some(0.3) }));
        assert_eq!((seen.sent, seen.answered, seen.lost.flows, seen.rejected.flows), (6, 6, 0, 0));
        let rows: Vec<_> = seen.timeline.iter().map(|row| (row.name.as_str(), row.fate)).collect();
        assert_eq!(
            rows,
            [
                ("pod/web-1:8080", StreamOutcome::Answered),
                ("pod/web-2:8080", StreamOutcome::Answered),
                ("pod/web-3:8080", StreamOutcome::Answered),
                ("pod/web-1:8080", StreamOutcome::Stale)
            ]
        );
    }

    #[test]
    fn rejections_follow_when_the_last_endpoint_goes_and_answers_when_the_first_comes() {
        let flows = [flow(-0.1, 1), flow(0.1, 1), flow(0.2, 0), rejected(0.3)];
        let one = Promised::Delivered(endpoints(&[1]));
        let seen = observed(one.clone(), Promised::Rejected, &[], &flows);
        assert_eq!(seen.follows, Some(Following { first: Some(0.3), last_before: Some(0.1) }));
        assert_eq!(seen.lost, FlowSpan { flows: 1, first: Some(0.2), last: Some(0.2) });
        let seen = observed(Promised::Nothing, one, &[1], &[flow(-0.1, 0), flow(0.1, 0), flow(0.2, 1)]);
        assert_eq!(seen.follows, Some(Following { first: Some(0.2), last_before: None }));
    }

    #[test]
    fn flows_follow_when_their_service_is_deleted() {
        let one = Promised::Delivered(endpoints(&[1]));
        let seen = observed(one, Promised::Nothing, &[], &[flow(-0.1, 1), flow(0.1, 1), flow(0.2, 0), flow(0.3, 0)]);
        assert_eq!(seen.follows, Some(Following { first: Some(0.2), last_before: Some(0.1) }));
    }

    #[test]
    fn nothing_follows_a_change_of_nothing_that_is_promised() {
        let same = || Promised::Delivered(endpoints(&[1]));
        let seen = observed(same(), same(), &[1], &[flow(-0.5, 1), flow(0.25, 1)]);
        assert_eq!((seen.follows, seen.longest_pause), (None, Duration::from_millis(750)));
        let counts = &seen.timeline[0].counts;
        assert_eq!((counts.len(), counts[25], counts[62], counts.iter().sum::<u32>()), (SLOTS, 1, 1, 2));
    }

    #[test]
    fn a_timeline_has_few_rows_however_many_endpoints_there_are() {
        let numbers: Vec<u8> = (1..=40).collect();
        let flows: Vec<StreamedFlow> = numbers.iter().map(|number| flow(0.1, *number)).collect();
        let seen = observed(Promised::Nothing, Promised::Nothing, &numbers, &flows);
        assert_eq!(seen.timeline.len(), MAX_ROWS);
        assert_eq!(seen.timeline.last().map(|row| row.name.as_str()), Some("other endpoints"));
        assert_eq!(seen.timeline.iter().flat_map(|row| &row.counts).sum::<u32>(), 40);
    }
}
