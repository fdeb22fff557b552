//! A namespace made ready for walking.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family, Protocol};
use svclab_rules::walk::{Environment, Interface, RuleId};

use super::rules::Rules;
use super::{PredictError, RulePlace};
use crate::documents::Document;
use crate::scenario::served_on;
use crate::topology::{Hop, LOOPBACK, Netns, Route};

/// A namespace: its plan, its rules, and what they ask of it.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) netns: Netns,
    pub(super) environment: Environment,
    /// The longest prefixes first.
    pub(super) routes: Vec<Route>,
    rules: [Option<Arc<Rules>>; 2],
    /// Who listens where.
    listeners: HashMap<(Protocol, SocketAddr), String>,
}

impl Machine {
    pub(super) fn of(netns: &Netns, documents: &[Document], cluster: &Cluster) -> Result<Self, PredictError> {
        let of_family = |family: Family| {
            let own = documents.iter().filter(|one| one.netns == netns.name && one.is_met_by(family));
            Rules::of(&own.collect::<Vec<_>>(), family).map(|rules| rules.map(Arc::new))
        };
        let rules = [of_family(Family::ALL[0])?, of_family(Family::ALL[1])?];
        let mut environment = Environment::default();
        let mut routes = netns.routes.clone();
        for (index, prefix) in &netns.addresses {
            let Some(interface) = netns.interface(*index).and_then(|one| Interface::new(&one.name)) else { continue };
            environment.addresses.assign_in(*prefix, interface);
            // An address brings a route to the network that it is in.
            routes.push(Route { destination: prefix.trunc(), hop: Hop::Link(*index) });
        }
        routes.sort_by_key(|route| std::cmp::Reverse(route.destination.prefix_len()));
        let node = cluster.nodes.iter().find(|node| netns.node_name() == Some(&node.name));
        let served = node.map(|node| served_on(cluster, node)).unwrap_or_default();
        let listeners = served.into_iter().map(|(protocol, at, owner)| ((protocol, at), owner)).collect();
        Ok(Self { netns: netns.clone(), environment, routes, rules, listeners })
    }

    /// The same machine by another plan that differs only in its settings.
    pub(super) fn with_settings_of(&self, netns: &Netns) -> Self {
        Self { netns: netns.clone(), ..self.clone() }
    }

    /// The rules for packets of a family, where there are any.
    pub(super) fn rules(&self, family: Family) -> Option<&Rules> {
        self.rules[family as usize].as_deref()
    }

    /// Whose listener is at an address.
    pub(super) fn listener(&self, protocol: Protocol, at: SocketAddr) -> Option<&str> {
        self.listeners.get(&(protocol, at)).map(String::as_str)
    }

    /// Whether a process takes packets of a protocol, at whatever port.
    pub(super) fn takes(&self, protocol: Protocol) -> bool {
        self.listeners.keys().any(|(taken, _)| *taken == protocol)
    }

    /// Where a rule of this machine stands.
    pub(super) fn place(&self, family: Family, rule: RuleId) -> Option<RulePlace> {
        self.rules(family)?.rule(&self.netns.name, rule).map(|(place, _)| place)
    }

    /// The name of an interface; the loopback's is 1.
    pub(super) fn interface(&self, index: u32) -> Option<Interface> {
        if index == LOOPBACK {
            return Some(Interface::LOOPBACK);
        }
        self.netns.interface(index).and_then(|interface| Interface::new(&interface.name))
    }
}

/// The address that a process sends from which wants to be local.
pub(super) fn loopback(ipv4: bool) -> IpAddr {
    if ipv4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}
