//! Endpoint chains that no rule jumps to, because the rules are missing or not in the text.

use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;

use crate::chains::iptables::{NAMING, destination, host, probability, service_in};
use crate::cluster::Protocol;
use crate::iptables::{Chain, ChainHash, ChainKind, Match, Rule, Table};

/// An endpoint and its service port.
pub(super) struct Orphan {
    pub(super) port: ChainHash,
    /// kube-proxy's name of the service port.
    pub(super) name: String,
    pub(super) protocol: Protocol,
    pub(super) endpoint: SocketAddr,
}

/// Finds endpoints whose chains no rule jumps to and whose service's chain lacks rules. If a service's chain balances all connections, such
/// an endpoint chain is one that kube-proxy has not removed yet.
pub(super) fn orphans(nat: &Table) -> Vec<Orphan> {
    let jumps = nat.chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).collect();
    let endpoints = || nat.chains.iter().filter(|chain| NAMING.is_endpoint(&chain.name));
    let rules = || nat.chains.iter().flat_map(|chain| &chain.rules);
    let ports: BTreeSet<u16> = rules().filter_map(destination).map(|to| to.port()).collect();
    let orphan = |chain: &Chain| orphan(chain, &ports);
    let alone: Vec<Orphan> = endpoints().filter(|chain| !led.contains(&*chain.name)).filter_map(orphan).collect();
    // If no rule has a probability at all, the rules with one are not in the text, whatever else leads to the endpoint.
    if alone.len() > 1 && !rules().any(|rule| probability(rule).is_some()) {
        return endpoints().filter_map(orphan).collect();
    }
    let lacks = |orphan: &Orphan| lacks_rules(nat.chain(&orphan.port.chain(ChainKind::Service)));
    alone.into_iter().filter(lacks).collect()
}

/// Returns the endpoint of a chain if the chain's name is the hash of the endpoint and the service in its comment. Without its DNAT, the port
/// may be one of those that other endpoints have.
fn orphan(chain: &Chain, ports: &BTreeSet<u16>) -> Option<Orphan> {
    let candidates: Vec<SocketAddr> = match chain.rules.iter().find_map(destination) {
        Some(endpoint) => vec![endpoint],
        None => {
            let masqueraded = chain.rules.iter().find_map(|rule| host(&rule.source.as_ref()?.value))?;
            ports.iter().map(|port| SocketAddr::new(masqueraded, *port)).collect()
        }
    };
    let service = chain.rules.iter().find_map(service_in)?;
    let hash = NAMING.endpoint_part(&chain.name).and_then(ChainHash::parse)?;
    // Up to 1.18 the name of an unnamed port ended in a colon.
    let names = [service.to_owned(), format!("{service}:")];
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let readings = || names.iter().flat_map(|name| protocols.map(|protocol| (name, protocol)));
    let read = |endpoint: SocketAddr| {
        let text = endpoint.to_string();
        let is_own = |(name, protocol): &(&String, _)| ChainHash::for_endpoint(name, *protocol, &text) == hash;
        readings().find(is_own).map(|(name, protocol)| (name, protocol, endpoint))
    };
    let (name, protocol, endpoint) = candidates.into_iter().find_map(read)?;
    let port = ChainHash::for_service_port(name, protocol);
    Some(Orphan { port, name: service.to_owned(), protocol, endpoint })
}

/// Returns whether a service's chain does not balance all connections evenly.
fn lacks_rules(chain: Option<&Chain>) -> bool {
    let Some(chain) = chain else { return true };
    let leads: Vec<&Rule> = chain.rules.iter().filter(|rule| leads_to_endpoint(rule)).collect();
    let count = leads.len();
    let is_fair = |(at, rule): (usize, &&Rule)| match probability(rule) {
        None => at + 1 == count,
        Some(share) => at + 1 < count && (share - 1.0 / (count - at) as f64).abs() < ROUNDED,
    };
    count == 0 || !leads.iter().enumerate().all(is_fair)
}

/// Rounding error of probabilities in old releases.
const ROUNDED: f64 = 0.0001;

/// Returns whether a rule sends new clients to an endpoint.
fn leads_to_endpoint(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| NAMING.is_endpoint(next))
        && !rule.matches.iter().any(|one| matches!(one, Match::Recent(_)))
}
