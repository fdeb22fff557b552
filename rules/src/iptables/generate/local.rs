//! How traffic of this node's or cluster's pods is distinguished from other traffic.

use super::super::ast::Rule;
use super::super::values::{Negatable, Network};
use crate::cluster::{Family, Node, ProxyConfig};
use crate::selection::LocalTraffic;

/// A condition that holds for packets from pods.
pub(super) enum LocalDetector {
    /// Nothing is known of pods: no rule depends on them.
    None,
    /// By source address.
    Source(Network),
    /// By the interface that a packet comes from, a name or with `+` the start of one.
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

    /// Whether pod traffic can be distinguished from other traffic.
    pub(super) fn is_implemented(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The source range, if that is how it works.
    pub(super) fn source(&self) -> Option<&Network> {
        match self {
            Self::Source(network) => Some(network),
            Self::None | Self::Interface(_) => None,
        }
    }

    /// The rule, for packets from pods only.
    pub(super) fn if_local(&self, rule: Rule) -> Rule {
        self.limit(rule, false)
    }

    /// The rule, for other packets only.
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
