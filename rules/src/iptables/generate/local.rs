//! Detection of traffic from this node's or the cluster's pods.

use super::super::ast::Rule;
use super::super::values::{Negatable, Network};
use crate::cluster::{Family, Node, ProxyConfig};
use crate::selection::LocalTraffic;

/// A match for packets from pods.
pub(super) enum LocalDetector {
    /// No detection: no rule depends on the source.
    None,
    /// By source address.
    Source(Network),
    /// By input interface: a name, or a prefix with `+`.
    Interface(Box<str>),
}

impl LocalDetector {
    pub(super) fn new(config: &ProxyConfig, node: &Node, family: Family) -> Self {
        match LocalTraffic::of(config, node, family) {
            LocalTraffic::Unknown => Self::None,
            LocalTraffic::Source(range) => Self::Source(Network::range(range)),
            LocalTraffic::Interface(name) => Self::Interface(name.into()),
            LocalTraffic::InterfacePrefix(prefix) => Self::Interface(format!("{prefix}+").into()),
        }
    }

    /// Returns whether pod traffic can be distinguished from other traffic.
    pub(super) fn is_implemented(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the source range, if the detection uses one.
    pub(super) fn source(&self) -> Option<&Network> {
        match self {
            Self::Source(network) => Some(network),
            Self::None | Self::Interface(_) => None,
        }
    }

    /// Restricts the rule to packets from pods.
    pub(super) fn if_local(&self, rule: Rule) -> Rule {
        self.limit(rule, false)
    }

    /// Restricts the rule to packets not from pods.
    pub(super) fn if_not_local(&self, rule: Rule) -> Rule {
        self.limit(rule, true)
    }

    fn limit(&self, mut rule: Rule, negated: bool) -> Rule {
        match self {
            Self::None => {}
            Self::Source(network) => rule.source = Some(Negatable { negated, value: network.clone() }),
            Self::Interface(name) => rule.in_interface = Some(Negatable { negated, value: name.clone() }),
        }
        rule
    }
}
