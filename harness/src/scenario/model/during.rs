//! Flows during a change.

use std::time::Duration;

use svclab_rules::cluster::{ObjectName, ServicePort};

use super::{Change, Probe};

/// A change during which flows are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct During {
    /// The change.
    pub change: Change,
    /// The probes: new flows of each are sent at the same rate.
    pub probes: Vec<DuringProbe>,
    /// New flows of each probe, per second.
    pub rate: u32,
    /// How long they are sent before the change.
    pub before: Duration,
    /// How long they are sent from the change on.
    pub after: Duration,
    /// The expectation for the flows of each probe.
    pub expectation: DuringExpectation,
}

/// Returns the number of flows sent at a rate in a time; at least one.
pub(crate) fn flows_at_rate(rate: u32, time: Duration) -> u64 {
    ((f64::from(rate) * time.as_secs_f64()).floor() as u64).max(1)
}

/// A probe that is sent during a change.
#[derive(Debug, Clone, PartialEq)]
pub struct DuringProbe {
    /// The probe.
    pub probe: Probe,
    /// The Service and its port, if the destination is one of a Service's addresses.
    pub service: Option<(ObjectName, ServicePort)>,
}

/// The expectation for flows during a change. Every field that is `Some` must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DuringExpectation {
    /// Flows that get neither a reply nor a rejection.
    pub lost: Option<Bounds>,
    /// Flows that are rejected.
    pub rejected: Option<Bounds>,
    /// Flows that start after the change and are delivered to an address that is no longer an endpoint.
    pub stale: Option<Bounds>,
    /// The maximum time from the change to the first flow that follows it.
    pub followed_within: Option<Duration>,
}

/// Inclusive bounds of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The smallest.
    pub at_least: u64,
    /// The largest; `None` for any.
    pub at_most: Option<u64>,
}

impl Bounds {
    /// Returns whether a number is within them.
    pub fn allow(self, number: u64) -> bool {
        number >= self.at_least && self.at_most.is_none_or(|most| number <= most)
    }
}
