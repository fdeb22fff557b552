//! Endpoint chains that no rule jumps to, because the rules are missing or not in the text.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, SocketAddr};

use crate::chains::fits;
use crate::chains::iptables::{NAMING, balances, destination, host, is_large, probability, service_in};
use crate::cluster::Protocol;
use crate::iptables::{Chain, ChainHash, ChainKind, Match, RecentAction, Rule, Table};

/// An endpoint and its service port.
pub(super) struct Orphan {
    pub(super) port: ChainHash,
    /// kube-proxy's name of the service port.
    pub(super) name: String,
    pub(super) protocol: Protocol,
    pub(super) endpoint: SocketAddr,
    /// Whether its chain records clients for session affinity.
    pub(super) records_clients: bool,
}

/// Finds endpoints whose chains no rule jumps to and whose service's chain lacks rules. A service's chain that balances all connections evenly may
/// have lost its first rules: kube-proxy removes an endpoint's chain with the rule that jumps to it, unless the cluster is large. This is known
/// only where the chain is shown whole.
pub(super) fn orphans(nat: &Table, is_whole: &dyn Fn(&str) -> bool) -> Vec<Orphan> {
    let jumps = nat.chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).collect();
    let endpoints = || nat.chains.iter().filter(|chain| NAMING.is_endpoint(&chain.name));
    let rules = || nat.chains.iter().flat_map(|chain| &chain.rules);
    let ports = rules().filter_map(destination).map(|to| to.port()).collect();
    let search = Search { nat, ports, left: Cell::new(MAX_SEARCHED) };
    let orphan = |chain: &Chain| search.orphan(chain);
    let alone: Vec<Orphan> = endpoints().filter(|chain| !led.contains(&*chain.name)).filter_map(orphan).collect();
    // If no rule has a probability at all, the rules with one are not in the text, whatever else leads to the endpoint.
    if alone.len() > 1 && !rules().any(|rule| probability(rule).is_some()) {
        return endpoints().filter_map(orphan).collect();
    }
    let is_large = is_large(&nat.chains);
    let lacks = |orphan: &Orphan| {
        let name = orphan.port.chain(ChainKind::Service);
        lacks_rules(nat.chain(&name)) || !is_large && is_whole(&name)
    };
    alone.into_iter().filter(lacks).collect()
}

/// Maximum number of endpoints whose port is searched by hash among all ports.
const MAX_SEARCHED: usize = 16;

/// A search for the endpoints that chains were created for.
struct Search<'t> {
    nat: &'t Table,
    /// The ports of endpoints in the text.
    ports: BTreeSet<u16>,
    /// How many more endpoints may have any port.
    left: Cell<usize>,
}

/// A service port by its name as it is hashed, and its protocol.
type Named = (String, Protocol);

impl Search<'_> {
    /// Returns the endpoint of a chain if the chain's name is the hash of the endpoint and the service in its comment. Without its DNAT, the
    /// port is one of those that other endpoints have, or any if the service has chains of its own.
    fn orphan(&self, chain: &Chain) -> Option<Orphan> {
        let service = chain.rules.iter().find_map(service_in)?;
        let hash = NAMING.endpoint_part(&chain.name).and_then(ChainHash::parse)?;
        // Up to 1.18 the name of an unnamed port ended in a colon.
        let names = [service.to_owned(), format!("{service}:")];
        let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let named: Vec<Named> =
            names.iter().flat_map(|name| protocols.map(|protocol| (name.clone(), protocol))).collect();
        let ((name, protocol), endpoint) = match chain.rules.iter().find_map(destination) {
            Some(endpoint) => Some((named_by(hash, &named, endpoint)?, endpoint)),
            None => {
                let masqueraded = chain.rules.iter().find_map(|rule| host(&rule.source.as_ref()?.value))?;
                self.with_port(hash, &named, masqueraded)
            }
        }?;
        let port = ChainHash::for_service_port(name, *protocol);
        let records = |one: &Match| matches!(one, Match::Recent(recent) if recent.action.value == RecentAction::Set);
        let records_clients = chain.rules.iter().flat_map(|rule| &rule.matches).any(records);
        Some(Orphan { port, name: service.to_owned(), protocol: *protocol, endpoint, records_clients })
    }

    /// Returns the endpoint at an address whose chain has a hash.
    fn with_port<'n>(&self, hash: ChainHash, named: &'n [Named], ip: IpAddr) -> Option<(&'n Named, SocketAddr)> {
        let read = |named: &'n [Named], port: u16| {
            let endpoint = SocketAddr::new(ip, port);
            Some((named_by(hash, named, endpoint)?, endpoint))
        };
        if let Some(found) = self.ports.iter().find_map(|port| read(named, *port)) {
            return Some(found);
        }
        let has_chains = |(name, protocol): &&Named| {
            let hash = ChainHash::for_service_port(name, *protocol);
            ChainKind::ALL.into_iter().any(|kind| self.nat.chain(&hash.chain(kind)).is_some())
        };
        let named = named.iter().find(has_chains).map(std::slice::from_ref)?;
        self.left.set(self.left.get().checked_sub(1)?);
        (1..=u16::MAX).find_map(|port| read(named, port))
    }
}

/// Returns the service port for whose endpoint a chain has a hash.
fn named_by(hash: ChainHash, named: &[Named], endpoint: SocketAddr) -> Option<&Named> {
    let text = endpoint.to_string();
    named.iter().find(|(name, protocol)| ChainHash::for_endpoint(name, *protocol, &text) == hash)
}

/// Returns whether a service's chain does not balance all connections evenly.
fn lacks_rules(chain: Option<&Chain>) -> bool {
    let Some(chain) = chain else { return true };
    let leads: Vec<&Rule> = chain.rules.iter().filter(|rule| balances(rule)).collect();
    let count = leads.len();
    let is_fair = |(at, rule): (usize, &&Rule)| match probability(rule) {
        None => at + 1 == count,
        Some(probability) => at + 1 < count && fits(probability, count - at),
    };
    count == 0 || !leads.iter().enumerate().all(is_fair)
}
