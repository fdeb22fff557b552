//! Counts of many flows, and how they fit their shares.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::Shares;
use crate::observation::{Tally, Translations};

/// Counts of flows.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sums<'a> {
    /// The number of flows sent.
    sent: u64,
    /// The sender's address.
    sender: Option<IpAddr>,
    /// The number of flows that were not delivered.
    lost: u64,
    /// The number of flows delivered more than once.
    duplicated: u64,
    /// The number of deliveries without a known flow.
    unattributed: u64,
    /// The number of flows resent after a loss inside the kernel.
    resent: u64,
    /// The numbers of flows by the destination that received them.
    delivered: &'a BTreeMap<SocketAddr, u64>,
    /// The numbers of flows by the source that receivers saw.
    sources: &'a BTreeMap<IpAddr, u64>,
    /// The numbers of flows by destination, according to the rules' counters.
    translated: Option<&'a BTreeMap<SocketAddr, u64>>,
}

impl<'a> From<&'a Tally> for Sums<'a> {
    fn from(tally: &'a Tally) -> Self {
        let Tally { sent, sender, lost, duplicated, unattributed, resent, delivered, sources, .. } = tally;
        let (sent, sender, lost, duplicated) = (*sent, *sender, *lost, *duplicated);
        let (unattributed, resent) = (*unattributed, *resent);
        let translated = tally.translated.as_deref().map(Translations::by_destination);
        Self { sent, sender, lost, duplicated, unattributed, resent, delivered, sources, translated }
    }
}

/// The test of endpoints' shares.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fit<'a> {
    /// The number of flows.
    flows: u64,
    /// Whether the shares are as expected.
    passed: bool,
    /// The probability that correct shares deviate at least as much.
    p_value: f64,
    /// The maximum rate at which the test fails on correct shares.
    false_alarm_rate: f64,
    /// The endpoints.
    endpoints: Vec<Endpoint<'a>>,
}

/// An endpoint's count and share.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    /// The endpoint.
    name: &'a str,
    /// The number of flows that it received.
    count: u64,
    /// Its expected share, from 0 to 1.
    share: f64,
    /// The p-value of this endpoint alone.
    p_value: f64,
    /// The lower end of the confidence interval of its share.
    low: f64,
    /// The upper end of the confidence interval of its share.
    high: f64,
}

impl<'a> From<&'a Shares> for Fit<'a> {
    fn from(Shares { names, fit }: &'a Shares) -> Self {
        let endpoints = names.iter().zip(&fit.cells).map(|(name, cell)| Endpoint {
            name,
            count: cell.count,
            share: cell.share,
            p_value: rounded(cell.p_value),
            low: rounded(cell.interval.low),
            high: rounded(cell.interval.high),
        });
        Self {
            flows: fit.flows,
            passed: fit.agrees,
            p_value: rounded(fit.p_value),
            false_alarm_rate: fit.rate.get(),
            endpoints: endpoints.collect(),
        }
    }
}

/// A number with six digits: further digits differ between machines.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}
