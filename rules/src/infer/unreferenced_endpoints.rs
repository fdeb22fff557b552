//! Endpoint chains that no rule jumps to, because the rules are missing or not in the text.

use std::collections::HashSet;
use std::net::SocketAddr;

use crate::chains::iptables::{NAMING, destination, probability, service_in};
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
    let alone: Vec<Orphan> = endpoints().filter(|chain| !led.contains(&*chain.name)).filter_map(orphan).collect();
    // If no rule has a probability at all, the rules with one are not in the text, whatever else leads to the endpoint.
    let mut all = nat.chains.iter().flat_map(|chain| &chain.rules);
    if alone.len() > 1 && !all.any(|rule| probability(rule).is_some()) {
        return endpoints().filter_map(orphan).collect();
    }
    let lacks = |orphan: &Orphan| lacks_rules(nat.chain(&orphan.port.chain(ChainKind::Service)));
    alone.into_iter().filter(lacks).collect()
}

/// Returns the endpoint of a chain if the chain's name is the hash of the endpoint and the service in its comment.
fn orphan(chain: &Chain) -> Option<Orphan> {
    let endpoint = chain.rules.iter().find_map(destination)?;
    let service = chain.rules.iter().find_map(service_in)?;
    let hash = NAMING.endpoint_part(&chain.name).and_then(ChainHash::parse)?;
    // Up to 1.18 the name of an unnamed port ended in a colon.
    let names = [service.to_owned(), format!("{service}:")];
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let mut readings = names.iter().flat_map(|name| protocols.map(|protocol| (name, protocol)));
    let text = endpoint.to_string();
    let (name, protocol) = readings.find(|(name, protocol)| ChainHash::for_endpoint(name, *protocol, &text) == hash)?;
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
