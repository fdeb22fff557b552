//! The probability cascade: how the rules of a service share new connections out among its endpoints.
//!
//! kube-proxy gives endpoint 1 of n the probability 1/n, endpoint 2 the probability 1/(n-1) of what is left, and so on; the
//! last takes all that is left. Written down, 0.33333333349, 0.5 and nothing look unfair; they are even, because each
//! rule sees only what those before it left: 1/3, then 1/2 of 2/3, then all of 1/3.
//!
//! [`cascades`] reads every such chain of a rule set and gives the exact share of each endpoint, as the kernel deals it
//! out: it draws 31 bits, and a rule holds where they are below its threshold (`xt_statistic.c`). What is wrong with a
//! cascade is a [`Defect`], with its place and its effect.

mod defect;
mod even;
mod read;
#[cfg(test)]
mod tests;

pub use defect::{Defect, Kind};
pub(crate) use even::{FIVE_DIGITS, TEN_DIGITS, is_even};
pub use read::cascades;

use crate::iptables::Probability;
use crate::walk::Share;

/// How the rules of one chain share new connections out.
#[derive(Debug, Clone, PartialEq)]
pub struct Cascade {
    /// The service port, as rules' comments call it: `default/web:http`; else the chain's name.
    pub service: String,
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

/// A rule that leads to an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The endpoint's address and port, where its chain has a `DNAT`; else the chain's name.
    pub endpoint: String,
    /// Its chain.
    pub chain: String,
    /// The number of the rule in the chain, from 1.
    pub rule: usize,
    /// The rule's probability; `None` takes all that is left.
    pub probability: Option<Probability>,
    /// What the rule takes of all new connections.
    pub share: Share,
    /// What this rule and those before it take.
    pub cumulative: Share,
}

impl Cascade {
    /// By how much a step's share is off from even, relative to it: 0.5 for half as much again.
    pub fn deviation(&self, step: &Step) -> f64 {
        step.share.to_f64() * self.endpoints as f64 - 1.0
    }

    /// The largest deviation from even of any step, without its sign; 0 where there are none.
    pub fn largest_deviation(&self) -> f64 {
        self.steps.iter().map(|step| self.deviation(step).abs()).fold(0.0, f64::max)
    }

    /// Why the probabilities are even, or the sum of what is not, as one sentence.
    pub fn sentence(&self) -> String {
        let written = |step: &Step| step.probability.map_or("always".to_owned(), |own| format!("{:.2}", own.share()));
        match (self.steps.as_slice(), self.defects.is_empty()) {
            ([], _) => "no rule leads to an endpoint".to_owned(),
            (_, false) => {
                format!("the shares are not as they should be; the worst is {:+.2} % off", self.worst() * 100.0)
            }
            ([_], true) => "there is one endpoint, and it gets everything".to_owned(),
            (steps, true) => {
                let listed: Vec<String> = steps.iter().take(3).map(written).collect();
                let rest = if steps.len() > 3 { ", ..., always" } else { "" };
                let n = steps.len();
                format!(
                    "{}{rest} is even: each rule sees only what those before it left, so that the one with k endpoints still \
                     to come, itself included, takes 1/k of k/{n}, which is 1/{n}",
                    listed.join(", ")
                )
            }
        }
    }

    /// The deviation that is farthest from 0.
    fn worst(&self) -> f64 {
        let all = self.steps.iter().map(|step| self.deviation(step));
        all.fold(0.0, |worst: f64, one| if one.abs() > worst.abs() { one } else { worst })
    }
}
