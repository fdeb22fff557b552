//! The probability cascade: how the rules of a service share new connections out among its endpoints.
//!
//! kube-proxy gives endpoint 1 of n the probability 1/n, endpoint 2 the probability 1/(n-1) of what is left, and so on; the
//! last takes all that is left. Written down, 0.33333333349, 0.5 and nothing look unfair; they are even, because each
//! rule sees only what those before it left: 1/3, then 1/2 of 2/3, then all of 1/3.
//!
//! [`cascades`] reads every such chain of iptables rules, [`numgens`] those of kube-proxy's nftables tables. Both walk new
//! connections through all rules of the chain and of those that it leads to, by the machinery that predicts single packets
//! ([`crate::walk`]), and give the exact share of each endpoint, as the kernel deals it out ([`Chance`] has how it draws).
//! What gets no endpoint is [`Fallen`]; what depends on something of the packet is a [`Case`] of its own; what the rules at hand
//! do not say is [`Unknown`]. What is wrong with a cascade is a [`Defect`], with its place and its effect.

mod affinity;
mod affinity_defect;
mod assessment;
mod check;
mod defect;
mod group;
mod group_walk;
mod outcome;
mod packets;
mod read;
mod share_accounting;
mod summary;
#[cfg(test)]
mod tests;

pub use affinity_defect::AffinityDefect;
pub use defect::{Defect, Kind};
pub use outcome::{Assessment, Case, Fallen, Fate, Unknown};
pub use read::{Shares, cascades, cascades_with_coverage, frame_defects, numgens, shares};

use std::collections::HashMap;

pub use crate::chains::{Chance, FrameDefect, Frontend};
use crate::cluster::Protocol;
use crate::walk::Share;

/// How the rules of one chain share new connections out.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The service port, as rules' comments call it: `default/web:http`; else the chain's name.
    pub service: String,
    /// The protocol, if the rules specify it.
    pub protocol: Option<Protocol>,
    /// The addresses and ports whose connections come here.
    pub frontends: Vec<Frontend>,
    /// The chain.
    pub chain: String,
    /// The endpoints in the order in which rules come to them.
    pub steps: Vec<Step>,
    /// How many different endpoints there are.
    pub endpoints: usize,
    /// What gets no endpoint.
    pub left: Share,
    /// The outcome of that, in the order of rules.
    pub fallen: Vec<Fallen>,
    /// Connections that are handled differently from those that the shares are of.
    pub cases: Vec<Case>,
    /// The unknown parts, in the order of the rules.
    pub unknown: Vec<Unknown>,
    /// True if rules look up returning clients before any random choice: shares are those of new clients.
    /// Whether the others come back to their endpoint: [`Self::keeps_affinity`].
    pub has_affinity: bool,
    /// What is wrong, in the order of rules.
    pub defects: Vec<Defect>,
}

/// A rule that leads to an endpoint, or an element of an nft map that does.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The endpoint's address and port, where its chain has a `DNAT`; else the chain's name.
    pub endpoint: String,
    /// Its chain; empty where an nft map holds addresses.
    pub chain: String,
    /// The number of the rule in the chain, from 1.
    pub rule: usize,
    /// When the rule takes a connection that comes to it.
    pub chance: Chance,
    /// What the rule takes of all new connections.
    pub share: Share,
    /// What this rule and those before it take.
    pub cumulative: Share,
    /// How many elements of an nft map have this endpoint; 1 without a map.
    pub places: u32,
}

impl Cascade {
    /// Whether rules lead every client back to its endpoint, as far as they show.
    pub fn keeps_affinity(&self) -> bool {
        self.has_affinity && !self.defects.iter().any(|defect| defect.kind.is_of_affinity())
    }

    /// Whether the share of a step is known: no connection comes to what these rules do not say, by the step's rule or one before it.
    pub fn is_known(&self, step: &Step) -> bool {
        let is_before = |fallen: &Fallen| fallen.rule <= step.rule && matches!(fallen.fate, Fate::Unknown(_));
        !self.fallen.iter().any(is_before)
    }

    /// Its assessment.
    pub fn assessment(&self) -> Assessment {
        match (self.defects.is_empty(), self.unknown.is_empty()) {
            (false, _) => Assessment::Defective,
            (true, false) => Assessment::Unknown,
            (true, true) => Assessment::Even,
        }
    }

    /// What each endpoint would get if all got the same.
    pub fn even(&self) -> Share {
        Share::of(1, u32::try_from(self.endpoints).unwrap_or(u32::MAX).max(1))
    }

    /// By how much a step's share is off from even, relative to it: 0.5 for half as much again.
    pub fn deviation(&self, step: &Step) -> f64 {
        self.deviation_of(step.share)
    }

    /// Every endpoint in the order of its first rule, with what all its rules take together.
    pub fn shares(&self) -> Vec<(&str, Share)> {
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(self.steps.len());
        let mut shares: Vec<(&str, Share)> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let place = *places.entry(&step.endpoint).or_insert(shares.len());
            match shares.get_mut(place) {
                Some((_, share)) => *share = share.plus(step.share),
                None => shares.push((&step.endpoint, step.share)),
            }
        }
        shares
    }

    /// The largest deviation from even of any endpoint, without its sign; 0 where there are none.
    pub fn largest_deviation(&self) -> f64 {
        self.worst().map_or(0.0, |(_, deviation)| deviation.abs())
    }

    /// The endpoint that is farthest from even, and by how much.
    fn worst(&self) -> Option<(&str, f64)> {
        let all = self.shares().into_iter().map(|(endpoint, share)| (endpoint, self.deviation_of(share)));
        all.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))
    }

    fn deviation_of(&self, share: Share) -> f64 {
        if share == self.even() { 0.0 } else { share.to_f64() * self.endpoints as f64 - 1.0 }
    }
}
