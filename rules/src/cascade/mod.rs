//! The probability cascade: how a service's rules distribute new connections among its endpoints.
//!
//! kube-proxy gives endpoint 1 of n the probability 1/n, endpoint 2 the probability 1/(n-1) of what is left, and so on; the
//! last takes all that is left. The probabilities 0.33333333349, 0.5 and none look unfair, but they are even, because each rule sees only
//! what earlier rules left: 1/3, then 1/2 of 2/3, then all of 1/3.
//!
//! [`cascades`] reads every such chain of iptables rules, [`numgens`] those of kube-proxy's nftables tables. Both walk new connections
//! through the chain and the chains it jumps to, with the code that predicts single packets ([`crate::walk`]), and give the exact share of
//! each endpoint in the kernel ([`Chance`] describes how the kernel draws). Connections that reach no endpoint are [`Fallen`]; connections
//! handled differently because of a packet field are a [`Case`]; what the given rules leave open is [`Unknown`]. A [`Defect`] has a place
//! and an effect.

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
mod typed;

pub use affinity_defect::AffinityDefect;
pub use defect::{Defect, Kind};
pub use outcome::{Assessment, Case, ConnectionOutcome, Fallen, Unknown};
pub use read::{Shares, cascades, cascades_with_coverage, numgens, shares, structure_defects};
pub use typed::complete_typed_probabilities;

use std::collections::HashMap;

use crate::chains;
pub use crate::chains::{Chance, Frontend, StructureDefect};
use crate::cluster::{Family, Protocol};
use crate::walk::Share;

/// How the rules of one chain distribute new connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The service port as in the comments of rules, `default/web:http`; else the chain's name.
    pub service: String,
    /// The protocol, if the rules specify it.
    pub protocol: Option<Protocol>,
    /// The addresses and ports whose connections enter the chain.
    pub frontends: Vec<Frontend>,
    /// The family of the rules: nftables' tables of both families have chains of the same names.
    pub family: Family,
    /// The chain.
    pub chain: String,
    /// The endpoints in the order of the rules.
    pub steps: Vec<Step>,
    /// The number of different endpoints.
    pub endpoints: usize,
    /// The share that reaches no endpoint.
    pub left: Share,
    /// What happens to that share, in the order of the rules.
    pub fallen: Vec<Fallen>,
    /// Connections that are handled differently from those that the shares describe.
    pub cases: Vec<Case>,
    /// The unknown parts, in the order of the rules.
    pub unknown: Vec<Unknown>,
    /// True if rules look up returning clients before any random choice: shares are those of new clients. [`Self::keeps_affinity`] says
    /// whether returning clients get their endpoint.
    pub has_affinity: bool,
    /// The defects, in the order of the rules.
    pub defects: Vec<Defect>,
}

/// A rule, or an element of an nft map, that sends connections to an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The endpoint's address and port if its chain has a `DNAT`; else the chain's name.
    pub endpoint: String,
    /// Its chain; empty if an nft map holds addresses.
    pub chain: String,
    /// The number of the rule in the chain, from 1.
    pub rule: usize,
    /// When the rule takes a connection that reaches it.
    pub chance: Chance,
    /// The share of all new connections that the rule takes.
    pub share: Share,
    /// The share that this rule and those before it take.
    pub cumulative: Share,
    /// The number of elements with this endpoint in an nft map; 1 without a map.
    pub places: u32,
}

impl Cascade {
    /// Returns whether the chain's name says that its endpoints are those of the rules' own node: `KUBE-SVL`, `KUBE-XLB`, `local-`.
    pub fn is_local(&self) -> bool {
        [&chains::iptables::NAMING, &chains::nftables::NAMING]
            .iter()
            .any(|naming| matches!(naming.of(&self.chain), Some((chains::Kind::Group(chains::Policy::Local), _))))
    }

    /// Returns whether returning clients get their endpoint, as far as the rules show.
    pub fn keeps_affinity(&self) -> bool {
        self.has_affinity && !self.defects.iter().any(|defect| defect.kind.is_of_affinity())
    }

    /// Returns whether the share of a step is known: neither its rule nor one before it depends on rules that are not given.
    pub fn is_known(&self, step: &Step) -> bool {
        let is_before =
            |fallen: &Fallen| fallen.rule <= step.rule && matches!(fallen.fate, ConnectionOutcome::Unknown(_));
        !self.fallen.iter().any(is_before)
    }

    /// Assesses the cascade.
    pub fn assessment(&self) -> Assessment {
        match (self.defects.is_empty(), self.unknown.is_empty()) {
            (false, _) => Assessment::Defective,
            (true, false) => Assessment::Unknown,
            (true, true) => Assessment::Even,
        }
    }

    /// Returns the even share of each endpoint.
    pub fn even(&self) -> Share {
        Share::of(1, u32::try_from(self.endpoints).unwrap_or(u32::MAX).max(1))
    }

    /// Returns the relative deviation of a step's share from the even share: 0.5 if it is 50 % larger.
    pub fn deviation(&self, step: &Step) -> f64 {
        self.deviation_of(step.share)
    }

    /// Returns every endpoint, in the order of its first rule, with the share of all its rules together.
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

    /// Returns the largest absolute deviation of an endpoint from the even share; 0 without endpoints.
    pub fn largest_deviation(&self) -> f64 {
        self.worst().map_or(0.0, |(_, deviation)| deviation.abs())
    }

    /// Returns whether all rules of the chain are shown and each takes an even share, up to rounding, whatever the endpoints' chains do:
    /// excerpts often lack those.
    pub fn is_even_by_probability(&self) -> bool {
        let is_of_endpoint =
            |unknown: &Unknown| unknown.share.is_some() && self.steps.iter().any(|step| step.rule == unknown.rule);
        let takes_all = self.steps.last().is_some_and(|step| step.cumulative.to_f64() > 1.0 - assessment::ROUNDED);
        let is_even = || self.worst().is_some_and(|(_, deviation)| deviation.abs() <= assessment::MAX_ROUNDED);
        takes_all && self.defects.is_empty() && self.unknown.iter().all(is_of_endpoint) && is_even()
    }

    /// Returns the endpoint that deviates most from the even share, and its deviation.
    fn worst(&self) -> Option<(&str, f64)> {
        let all = self.shares().into_iter().map(|(endpoint, share)| (endpoint, self.deviation_of(share)));
        all.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))
    }

    fn deviation_of(&self, share: Share) -> f64 {
        if share == self.even() { 0.0 } else { share.to_f64() * self.endpoints as f64 - 1.0 }
    }
}
