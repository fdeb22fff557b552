//! What two rule sets are compared by.

use std::collections::BTreeMap;

use super::finding::{Fact, Policy};
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

/// The endpoints of one policy, each with the shares of the rules that lead to it, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Group(pub(super) BTreeMap<String, Vec<f64>>);

impl Group {
    /// Whether an endpoint gets as much as every other, up to what five digits of a probability lose.
    pub(super) fn is_even(&self, endpoint: &str) -> bool {
        let count = self.0.len() as f64;
        let shares = self.0.get(endpoint).map(Vec::as_slice).unwrap_or_default();
        matches!(shares, [share] if (share - 1.0 / count).abs() <= count * 5.1e-6)
    }

    /// Whether shares are the same, up to what is lost where every probability is rounded to 31 bits.
    pub(super) fn is_same(&self, one: &[f64], other: &[f64]) -> bool {
        let lost = self.0.len() as f64 / f64::from(1_u32 << 31);
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
