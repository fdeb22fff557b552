//! A builder of rules, match by match in kube-proxy's order.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::ast::Rule;
use super::super::matches::{AddressType, Match, Ports, RouteType, States};
use super::super::targets::Target;
use super::super::values::{ChainName, Masked, Negatable, Network};
use crate::cluster::Protocol;

/// Creates a rule without matches.
pub(super) fn rule() -> Rule {
    Rule::default()
}

/// Creates a rule with a comment.
pub(super) fn commented(text: impl Into<Arc<str>>) -> Rule {
    rule().with(Match::Comment(text.into()))
}

impl Rule {
    /// Adds a `-m` match.
    pub(super) fn with(mut self, condition: Match) -> Self {
        self.matches.push(condition);
        self
    }

    /// Matches one source address.
    pub(super) fn sent_from(self, address: IpAddr) -> Self {
        self.sent_from_network(Network::host(address))
    }

    /// Matches a source range; nothing for `/0`, which iptables does not print.
    pub(super) fn sent_from_network(mut self, network: Network) -> Self {
        let everything = matches!(&network, Network::Prefix(range) if range.prefix_len() == 0);
        self.source = (!everything).then(|| Negatable::is(network));
        self
    }

    /// Matches one destination address.
    pub(super) fn sent_to(self, address: IpAddr) -> Self {
        self.sent_to_network(Network::host(address))
    }

    /// Matches a destination range.
    pub(super) fn sent_to_network(mut self, network: Network) -> Self {
        self.destination = Some(Negatable::is(network));
        self
    }

    /// Matches one destination port.
    pub(super) fn on_port(mut self, protocol: Protocol, port: u16) -> Self {
        self.protocol = Some(Negatable::is(protocol.into()));
        self.with(Match::Ports(Ports::destination(protocol, port)))
    }

    /// Matches connection states.
    pub(super) fn in_state(self, states: States) -> Self {
        self.with(Match::State { old_name: false, states: Negatable::is(states) })
    }

    /// Matches source addresses of the node.
    pub(super) fn sent_by_node(self) -> Self {
        let source = Some(Negatable::is(RouteType::Local));
        self.with(Match::AddressType(AddressType { source, destination: None }))
    }

    /// Matches destination addresses of the node.
    pub(super) fn sent_to_node(self) -> Self {
        let destination = Some(Negatable::is(RouteType::Local));
        self.with(Match::AddressType(AddressType { source: None, destination }))
    }

    /// Matches a bit of the packet's mark.
    pub(super) fn marked(self, bit: u32) -> Self {
        self.with(Match::Mark(Negatable::is(Masked::bits(bit))))
    }

    /// Counts packets in an nfacct object.
    pub(super) fn counted_by(self, object: &str) -> Self {
        self.with(Match::Nfacct(object.into()))
    }

    /// Sets the target.
    pub(super) fn then(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Sets a jump as the target.
    pub(super) fn jump(self, chain: &ChainName) -> Self {
        self.then(Target::Jump(chain.clone()))
    }

    /// Sets a jump to a chain that few rules jump to.
    pub(super) fn jump_to(self, chain: &str) -> Self {
        self.then(Target::Jump(chain.into()))
    }
}
