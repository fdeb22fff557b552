//! What a sample of flows showed.

use schemars::JsonSchema;
use serde::Serialize;

use super::step::Share;
use crate::cascade::sample;

/// Results of sampling.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample<'a> {
    /// The sender, as scenarios name it: `pod/client`.
    from: &'a str,
    /// Where to.
    to: std::net::SocketAddr,
    /// How many flows were sent.
    sent: u64,
    /// How many of them had to be resent, because the kernel had dropped them by itself.
    resent: u64,
    /// The flows that arrived, by endpoint.
    arrivals: Vec<Arrival<'a>>,
    /// The probability that right shares look at least this wrong; `null` if nothing arrived.
    p_value: Option<f64>,
    /// How often the test fails although shares are right.
    false_alarm_rate: Option<f64>,
    /// The measurements, in words.
    measured: &'a [String],
    /// What is wrong, in words; nothing if all is as the rules have it.
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
            measured: &sample.shown,
            faults: &sample.faults,
        }
    }
}

/// What arrived at one endpoint, or nowhere.
#[derive(Serialize, JsonSchema)]
struct Arrival<'a> {
    /// The endpoint.
    endpoint: &'a str,
    /// Flows that arrived there.
    arrived: u64,
    /// Flows that rules translated to it, by their own counters, if they have any.
    counted: Option<u64>,
    /// What should arrive.
    share: Share,
    /// The shares that fit the count: those of all endpoints together, at the false-alarm rate.
    interval: Option<[f64; 2]>,
}
