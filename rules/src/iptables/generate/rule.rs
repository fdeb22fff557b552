//! Rules, built condition by condition in the order in which kube-proxy gives them.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::ast::Rule;
use super::super::matches::{AddressType, Match, Ports, RouteType, States};
use super::super::targets::Target;
use super::super::values::{ChainName, Masked, Negatable, Network};
use crate::cluster::Protocol;

/// A rule without conditions.
pub(super) fn rule() -> Rule {
    Rule::default()
}

/// A rule with a comment.
pub(super) fn commented(text: impl Into<Arc<str>>) -> Rule {
    rule().with(Match::Comment(text.into()))
}

impl Rule {
    /// Adds a `-m` condition.
    pub(super) fn with(mut self, condition: Match) -> Self {
        self.matches.push(condition);
        self
    }

    /// From one address.
    pub(super) fn sent_from(self, address: IpAddr) -> Self {
        self.sent_from_network(Network::host(address))
    }

    /// From a range. Everything is from `/0`: iptables shows no condition then.
    pub(super) fn sent_from_network(mut self, network: Network) -> Self {
        let everything = matches!(&network, Network::Prefix(range) if range.prefix_len() == 0);
        self.source = (!everything).then(|| Negatable::is(network));
        self
    }

    /// To one address.
    pub(super) fn sent_to(self, address: IpAddr) -> Self {
        self.sent_to_network(Network::host(address))
    }

    /// To a range.
    pub(super) fn sent_to_network(mut self, network: Network) -> Self {
        self.destination = Some(Negatable::is(network));
        self
    }

    /// To one port.
    pub(super) fn on_port(mut self, protocol: Protocol, port: u16) -> Self {
        self.protocol = Some(Negatable::is(protocol.into()));
        self.with(Match::Ports(Ports::destination(protocol, port)))
    }

    /// In connections with one of these states.
    pub(super) fn in_state(self, states: States) -> Self {
        self.with(Match::State { old_name: false, states: Negatable::is(states) })
    }

    /// From an address of the node.
    pub(super) fn sent_by_node(self) -> Self {
        let source = Some(Negatable::is(RouteType::Local));
        self.with(Match::AddressType(AddressType { source, destination: None }))
    }

    /// To an address of the node.
    pub(super) fn sent_to_node(self) -> Self {
        let destination = Some(Negatable::is(RouteType::Local));
        self.with(Match::AddressType(AddressType { source: None, destination }))
    }

    /// With this bit of the packet's mark.
    pub(super) fn marked(self, bit: u32) -> Self {
        self.with(Match::Mark(Negatable::is(Masked::bits(bit))))
    }

    /// Counted in one of the kernel's accounting objects.
    pub(super) fn counted_by(self, object: &str) -> Self {
        self.with(Match::Nfacct(object.into()))
    }

    /// Ends in a target.
    pub(super) fn then(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Ends in a jump.
    pub(super) fn jump(self, chain: &ChainName) -> Self {
        self.then(Target::Jump(chain.clone()))
    }

    /// Ends in a jump to a chain that few rules jump to.
    pub(super) fn jump_to(self, chain: &str) -> Self {
        self.then(Target::Jump(chain.into()))
    }
}
