//! The probability cascade: how the rules of a service share new connections out among its endpoints.
//!
//! kube-proxy gives endpoint 1 of n the probability 1/n, endpoint 2 the probability 1/(n-1) of what is left, and so on; the
//! last takes all that is left. Written down, 0.33333333349, 0.5 and nothing look unfair; they are even, because each
//! rule sees only what those before it left: 1/3, then 1/2 of 2/3, then all of 1/3.
//!
//! [`cascades`] reads every such chain of iptables rules, [`numgens`] those of kube-proxy's nftables tables. Both give the
//! exact share of each endpoint, as the kernel deals it out ([`Chance`] has how it draws). What is wrong with a cascade is
//! a [`Defect`], with its place and its effect.

mod check;
mod defect;
mod even;
mod front;
mod ledger;
mod numgen;
mod read;
mod sentence;
#[cfg(test)]
mod tests;

pub use defect::{Defect, Kind};
pub(crate) use even::{FIVE_DIGITS, TEN_DIGITS, is_even};
pub use front::Front;
pub use numgen::numgens;
pub use read::cascades;

use std::collections::HashMap;

use crate::cluster::Protocol;
use crate::iptables::Probability;
use crate::walk::Share;

/// How the rules of one chain share new connections out.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The service port, as rules' comments call it: `default/web:http`; else the chain's name.
    pub service: String,
    /// The protocol, where rules tell it.
    pub protocol: Option<Protocol>,
    /// The addresses and ports whose connections come here.
    pub fronts: Vec<Front>,
    /// The chain.
    pub chain: String,
    /// The endpoints in the order in which rules come to them.
    pub steps: Vec<Step>,
    /// How many different endpoints there are.
    pub endpoints: usize,
    /// What no rule takes.
    pub left: Share,
    /// True where a client that has been here before goes to its endpoint again, before any chance decides: shares are
    /// those of new clients.
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
}

/// When a rule takes a connection that comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chance {
    /// Where 31 random bits are below a threshold: `statistic --mode random` (`xt_statistic.c`).
    Below(Probability),
    /// Always: it takes all that is left.
    Always,
    /// By one of so many numbers of nft's `numgen random`: 32 random bits, multiplied by `of` and cut to the number above
    /// the lowest 32 bits (`nft_numgen.c`, `reciprocal_scale`). So many of the 2^32 draws give this one.
    Drawn {
        /// How many draws.
        draws: u32,
        /// How many numbers there are, at least 2.
        of: u32,
    },
    /// By something of the packet, which is no chance: counted as never.
    Condition,
}

impl Chance {
    /// How many of [`Self::draws`] hold.
    pub fn threshold(self) -> u32 {
        match self {
            Self::Below(probability) => probability.threshold(),
            Self::Always => Probability::ONE,
            Self::Drawn { draws, .. } => draws,
            Self::Condition => 0,
        }
    }

    /// How many draws the kernel can make: 2^31, or for nft's `numgen` 2^32.
    pub fn draws(self) -> u64 {
        match self {
            Self::Drawn { .. } => 1 << 32,
            Self::Below(_) | Self::Always | Self::Condition => u64::from(Probability::ONE),
        }
    }
}

impl Cascade {
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
