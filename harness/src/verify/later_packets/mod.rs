//! Packets after a first one: second connections of a client and first ones of others, if rules remember clients (`connections`); later
//! packets of the same connection (`segments`), through all states that rules distinguish (`states`).

mod connections;
mod segments;
mod states;

use std::net::SocketAddr;

use svclab_rules::promise::{Promise, PromisedOutcome};
use svclab_rules::ruleset::Rules;
use svclab_rules::walk::{Narrowing, Packet};

use crate::documents::Document;
use crate::predict::{Network, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Senders};
use crate::sources::Disagreement;

/// The packets after the first that are examined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Depth {
    /// Later packets of connections, in both directions. The release's own rules need no such check.
    pub(crate) segments: bool,
    /// The segments with all flags, if rules compare them.
    pub(crate) flags: bool,
    /// The number of packets of a client that rules count (`recent --hitcount`).
    pub(crate) hits: u32,
}

impl Depth {
    /// What rules make necessary; `segments` states whether later packets of connections are examined.
    pub(crate) fn of(documents: &[Document], segments: bool) -> Self {
        let rules = || documents.iter().map(|document| &*document.rules);
        Self {
            segments,
            flags: rules().any(Rules::matches_tcp_flags),
            hits: rules().map(Rules::counted_packets).max().unwrap_or(0),
        }
    }
}

/// The outcome of packets after a first one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Later {
    /// The outcome, in comparable words.
    pub(crate) words: Vec<String>,
    pub(crate) fault: Option<LaterFault>,
}

/// A fault of packets after a first one.
#[derive(Debug, Clone)]
pub(crate) struct LaterFault {
    /// Whether rules are wrong, or something is unknown.
    pub(crate) disagreement: Disagreement,
    /// The fault, as a lower-case fragment.
    pub(crate) what: String,
    /// The prediction for the packet, if it belongs to the first one's connection.
    pub(crate) prediction: Option<Prediction>,
}

impl Later {
    fn add_fault(&mut self, disagreement: Disagreement, what: String) {
        self.keep(LaterFault { disagreement, what, prediction: None });
    }

    /// Keeps the first fault; one that is known precedes others.
    fn keep(&mut self, fault: LaterFault) {
        let is_worse = |known: &LaterFault| {
            (known.disagreement, fault.disagreement) == (Disagreement::Unknown, Disagreement::Rules)
        };
        if self.fault.as_ref().is_none_or(is_worse) {
            self.fault = Some(fault);
        }
    }
}

/// Whether the outcome of a packet or of its reply cannot be determined.
fn is_unknown(branch: &PredictedBranch) -> bool {
    matches!(
        branch.outcome,
        PredictedOutcome::Unknown { .. } | PredictedOutcome::Delivered { reply: PredictedReply::Unknown(_), .. }
    )
}

/// A first packet with its promise and prediction.
pub(super) struct FirstPacket<'x, 'a> {
    pub(super) network: &'x Network<'a>,
    /// The network with the release's own rules.
    pub(super) released: &'x Network<'a>,
    pub(super) senders: &'x Senders,
    pub(super) packet: Packet,
    pub(super) promise: &'x Promise,
    pub(super) prediction: &'x Prediction,
    /// The set of packets that this one represents.
    pub(super) narrowing: &'x Narrowing,
    pub(super) depth: Depth,
}

impl FirstPacket<'_, '_> {
    pub(super) fn later(&self) -> Later {
        let mut later = Later::default();
        let PromisedOutcome::Delivered { endpoints, affinity_seconds } = &self.promise.outcome else { return later };
        // The outcome of later packets is then unknown, too; the first packet's result already says so.
        if self.prediction.branches.iter().any(is_unknown) {
            return later;
        }
        let is_affine = affinity_seconds.is_some() && endpoints.len() > 1;
        let mut branches = self.prediction.branches.iter();
        if !self.depth.segments && !is_affine && branches.all(|branch| branch.remembered.is_empty()) {
            return later;
        }
        let delivered = self.prediction.branches.iter().filter(|first| endpoint(first).is_some());
        // The states of each first packet's connection.
        let states: Vec<Vec<PredictedBranch>> = delivered
            .map(|first| {
                if !self.depth.segments {
                    return vec![first.clone()];
                }
                let states = self.follow(first, &mut later);
                self.unreplied(first, &mut later);
                self.invalid(first, &mut later);
                states
            })
            .collect();
        if is_affine || states.iter().flatten().any(|state| !state.remembered.is_empty()) {
            self.connections(&states, *affinity_seconds, &mut later);
        }
        // The order of branches does not matter.
        later.words.sort_unstable();
        later
    }
}

fn endpoint(branch: &PredictedBranch) -> Option<SocketAddr> {
    match &branch.outcome {
        PredictedOutcome::Delivered { destination, .. } => Some(*destination),
        _ => None,
    }
}

fn source(reply: &PredictedReply) -> Option<SocketAddr> {
    match reply {
        PredictedReply::From(address) => Some(*address),
        _ => None,
    }
}
