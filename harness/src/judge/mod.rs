//! Compares observations with expectations: verdicts with their reasons.
//!
//! [`judge`] compares every part of an [`Expectation`] with the observation. A part that does not hold is a [`Difference`]: what was
//! expected, what was observed, and the reason. Duplicated flows, missing flows and packets that are not part of any flow are always
//! differences, whatever is expected: nothing is ignored.

mod during;
mod flow;
mod tally;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::observation::Observation;
use crate::scenario::{Expectation, Probe, SourceExpectation};
use crate::stats::{FalseAlarmRate, Fit, Goal};

pub(crate) use during::{expected_parts as during_parts, judge as judge_during};
pub(crate) use tally::cells;
pub(crate) use words::{expected_parts, observed_words};

/// The input of judging in addition to the expectation and the observation.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Context {
    /// All addresses of each node, on all of its interfaces, by the node's name.
    pub nodes: BTreeMap<String, Vec<IpAddr>>,
    /// The addresses that the probe was sent from.
    pub sender: Vec<IpAddr>,
    /// The rate at which this one judgement may fail although nothing is wrong. It is one test's share of the run's
    /// rate: see [`FalseAlarmRate::shared_by`].
    pub rate: FalseAlarmRate,
    /// The destination of the previous probe of the same test and family.
    pub before: Option<SocketAddr>,
    /// The goal of a count with interim looks, at the same rate; `None` if the number of flows was fixed.
    pub looked: Option<Goal>,
}

impl Context {
    /// The node that has an address.
    fn node_of(&self, address: IpAddr) -> Option<&str> {
        self.nodes.iter().find(|(_, own)| own.contains(&address)).map(|(name, _)| name.as_str())
    }
}

/// Whether an observation is as expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgment {
    /// Whether everything was as expected: there is no difference.
    pub held: bool,
    /// The parts that were not as expected.
    pub differences: Vec<Difference>,
    /// The results of the statistics, in words; empty for single flows.
    pub shown: Vec<String>,
    /// How the counts of a balance test fit the shares, with one cell for each name.
    pub(crate) balance: Option<Shares>,
}

/// The counts of a balance test and what they mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shares {
    /// The endpoints, as the scenario names them, in the order of the test's cells.
    pub names: Vec<String>,
    /// The test.
    pub fit: Fit,
}

/// A part of an expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The part.
    pub field: Field,
    /// What was expected: `delivered to pod/nginx:80`.
    pub expected: String,
    /// What was observed: `dropped`.
    pub observed: String,
    /// The meaning of the difference, in words.
    pub reason: String,
}

/// A part of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Field {
    /// Whether every flow that was sent is accounted for exactly once.
    Flows,
    /// The outcome of the packet.
    Outcome,
    /// The number of fragments that the receiver gets.
    Fragments,
    /// The source address that the receiver sees.
    Source,
    /// The reply as the sender sees it.
    Reply,
    /// How flows are distributed over endpoints.
    Balance,
    /// Whether a client stays with its endpoint.
    Affinity,
    /// The number of flows lost during a change.
    Lost,
    /// The number of flows rejected during a change.
    Rejected,
    /// The number of flows sent to removed endpoints.
    Stale,
    /// The time within which flows follow a change.
    FollowedWithin,
}

impl Field {
    /// The name of the part, as scenarios write it where they have one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Outcome => "outcome",
            Self::Fragments => "fragments",
            Self::Source => "source",
            Self::Reply => "reply",
            Self::Balance => "balance",
            Self::Affinity => "affinity",
            Self::Lost => "lost",
            Self::Rejected => "rejected",
            Self::Stale => "stale",
            Self::FollowedWithin => "followedWithin",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, expected, observed, reason } = self;
        write!(f, "{field}: expected {expected}, observed {observed}: {reason}")
    }
}

/// Compares an observation with every part of an expectation.
pub(crate) fn judge(
    probe: &Probe,
    expectation: &Expectation,
    observation: &Observation,
    context: &Context,
) -> Judgment {
    let mut findings = Findings::default();
    match observation {
        Observation::Flow(seen) => flow::judge(probe, expectation, seen, context, &mut findings),
        Observation::Tally(tally) => tally::judge(expectation, tally, context, &mut findings),
        // Its expectation has a type of its own: see `judge_during`.
        Observation::Stream(seen) => {
            let why = "flows during a change have expectations of their own";
            findings.differ(Field::Flows, "a flow, or a number of flows", during::stream_words(seen), why);
        }
    }
    findings.into_judgment()
}

/// The findings of judging so far.
#[derive(Debug, Default)]
struct Findings {
    differences: Vec<Difference>,
    shown: Vec<String>,
    balance: Option<Shares>,
}

impl Findings {
    fn into_judgment(self) -> Judgment {
        let Self { differences, shown, balance } = self;
        Judgment { held: differences.is_empty(), differences, shown, balance }
    }

    fn differ(
        &mut self,
        field: Field,
        expected: impl Into<String>,
        observed: impl Into<String>,
        reason: impl Into<String>,
    ) {
        let (expected, observed, reason) = (expected.into(), observed.into(), reason.into());
        self.differences.push(Difference { field, expected, observed, reason });
    }
}

/// Whether a receiver may see this source; if not, the error explains what it means.
fn check_source(expected: SourceExpectation, seen: IpAddr, sender: &[IpAddr], context: &Context) -> Result<(), String> {
    let node = context.node_of(seen);
    let own = sender.contains(&seen);
    let held = match expected {
        SourceExpectation::Preserved => own,
        // A node's packet that is masqueraded to its own address looks like one that is not masqueraded.
        SourceExpectation::Masqueraded => node.is_some() && !own,
        SourceExpectation::Address(address) => seen == address,
    };
    if held {
        return Ok(());
    }
    Err(match (own, node) {
        (true, Some(_)) if expected == SourceExpectation::Masqueraded => {
            "address and port are the sender's own, so nothing was masqueraded".to_owned()
        }
        (true, _) => "the packet kept the sender's own address".to_owned(),
        (false, Some(node)) => format!("the packet was masqueraded to an address of node/{node}"),
        (false, None) => "neither the sender nor a node has this address".to_owned(),
    })
}
