//! Results of a sample of flows.

use schemars::JsonSchema;
use serde::Serialize;

use super::step::Share;
use crate::cascade::sample;

/// Results of sampling.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample<'a> {
    /// The sender, as in scenarios: `pod/client`.
    from: &'a str,
    /// The destination.
    to: std::net::SocketAddr,
    /// The number of flows sent.
    sent: u64,
    /// The number of flows that were resent because the kernel had dropped them for reasons other than rules.
    resent: u64,
    /// The flows that arrived, by endpoint.
    arrivals: Vec<Arrival<'a>>,
    /// The probability that correct shares deviate at least this much; `null` if nothing arrived.
    p_value: Option<f64>,
    /// The probability that the test fails although the shares are correct.
    false_alarm_rate: Option<f64>,
    /// The measurements, in words.
    measured: &'a [String],
    /// The faults, in words; empty if everything agrees with the rules.
    faults: &'a [String],
}

impl<'a> Sample<'a> {
    pub(super) fn of(sample: &'a sample::Sample) -> Self {
        let cells = sample.fit.iter().flat_map(|fit| &fit.cells).map(Some).chain(std::iter::repeat(None));
        let arrivals = sample.arrivals.iter().zip(cells).map(|(own, cell)| Arrival {
            endpoint: &own.endpoint,
            arrived: own.arrived,
            counted: own.counted,
            share: Share::of(own.share),
            interval: cell.map(|cell| [cell.interval.low, cell.interval.high]),
        });
        Self {
            from: &sample.from,
            to: sample.to,
            sent: sample.sent,
            resent: sample.resent,
            arrivals: arrivals.collect(),
            p_value: sample.fit.as_ref().map(|fit| fit.p_value),
            false_alarm_rate: sample.fit.as_ref().map(|fit| fit.rate.get()),
            measured: &sample.confirmations,
            faults: &sample.faults,
        }
    }
}

/// Flows that arrived at one endpoint, or nowhere.
#[derive(Serialize, JsonSchema)]
struct Arrival<'a> {
    /// The endpoint.
    endpoint: &'a str,
    /// Flows that arrived there.
    arrived: u64,
    /// Flows that rules translated to it, by the rules' counters, if they have any.
    counted: Option<u64>,
    /// The expected share.
    share: Share,
    /// The confidence interval of the share, for all endpoints together, at the false-alarm rate.
    interval: Option<[f64; 2]>,
}
