//! What two rule sets are compared by.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Fact, Policy};
use crate::cascade::{FIVE_DIGITS, TEN_DIGITS, is_even};
use crate::iptables::{ChainHash, TableName};

/// A rule set in terms of services, and what is left of it.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) services: BTreeMap<ChainHash, Service>,
    /// What comments call services.
    pub(super) names: BTreeMap<ChainHash, String>,
    /// Chains that belong to no service.
    pub(super) chains: BTreeMap<(TableName, String), Chain>,
}

/// What rules say of a service port.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// Every fact with the rules that say so, without their comments.
    pub(super) facts: BTreeMap<Fact, Vec<String>>,
    pub(super) groups: BTreeMap<Policy, Group>,
    /// The facts of every chain in the order of rules.
    pub(super) order: BTreeMap<String, Vec<Place>>,
}

/// The endpoints of one policy.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Each endpoint with the shares of the rules that lead to it, in order.
    pub(super) shares: BTreeMap<String, Vec<f64>>,
    /// The rules in order: to which endpoint they lead, and for how many of the 2^31 draws.
    pub(super) rules: Vec<(String, u32)>,
}

impl Group {
    /// The endpoints that get as much as every other, up to what is lost by the digits of probabilities: theirs, and all
    /// before them, are even ones. None where an endpoint has two rules.
    pub(super) fn even(&self) -> BTreeSet<&str> {
        let count = self.rules.len();
        if count != self.shares.len() {
            return BTreeSet::new();
        }
        let even = |digits| {
            let left = (1..=count).rev().zip(&self.rules);
            left.take_while(|(to_come, (_, threshold))| is_even(*threshold, *to_come, digits)).count()
        };
        let first = even(TEN_DIGITS).max(even(FIVE_DIGITS));
        self.rules[..first].iter().map(|(endpoint, _)| endpoint.as_str()).collect()
    }

    /// Whether shares are the same, up to what is lost where every probability is rounded to 31 bits.
    pub(super) fn is_same(&self, one: &[f64], other: &[f64]) -> bool {
        let lost = self.shares.len() as f64 / f64::from(1_u32 << 31);
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| (one - other).abs() <= lost)
    }
}

/// What stands at a place of a chain: a fact, or a stretch of rules whose order means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Fact(Fact),
    /// Rules for endpoints that clients had before, in whatever order.
    Affinity,
    /// Rules that share traffic out: their order is in the shares.
    Balance,
    /// Rules of services, which kube-proxy lists in whatever order.
    Services,
    /// Jumps to all node ports, one for each address of the node, in whatever order.
    NodePorts,
}

/// A chain of no service.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// The policy, where it is not the kernel's default.
    pub(super) policy: Option<&'static str>,
    /// The rules that are of no service, in order.
    pub(super) rules: Vec<Fact>,
    /// All rules in order.
    pub(super) order: Vec<Place>,
}

/// Adds a place at the end; stretches of the same kind are one.
pub(super) fn push(places: &mut Vec<Place>, place: Place) {
    let stretch = !matches!(place, Place::Fact(_));
    if !(stretch && places.last() == Some(&place)) {
        places.push(place);
    }
}
