//! Whether the chain of an endpoint translates to the endpoint that it is for, and the service's protocol.
//!
//! kube-proxy says three times which endpoint a chain is for: in its name, a hash of the service port and the endpoint; in the
//! rule that masquerades what the endpoint sends to itself; and, from 1.24 on, in the comment of the rule that leads there. In a
//! right rule set all of them agree with `--to-destination`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::defect::{Defect, Kind};
use super::written::{CHAINS, asked, destination};
use crate::cluster::Protocol;
use crate::iptables::{Chain, ChainHash, Network, Rule, Target};

/// A service, as its chain has it.
pub(super) struct Own<'a> {
    /// The service port, as comments call it.
    pub(super) service: &'a str,
    pub(super) chain: &'a str,
    pub(super) protocol: Protocol,
}

/// The chain of kube-proxy that marks packets to be masqueraded.
const MASQUERADE: &str = "KUBE-MARK-MASQ";

/// The name of a service port as it is hashed, and the protocol, of which the name of a group's chain is the hash. Up to 1.19
/// an unnamed port's name ends in a colon.
pub(super) fn verified(chain: &str, service: &str) -> Option<(String, Protocol)> {
    let hash = CHAINS.of_group(chain).and_then(ChainHash::parse)?;
    let names = [service.to_owned(), format!("{service}:")];
    names.into_iter().find_map(|name| {
        let is = |protocol: &Protocol| ChainHash::of_service_port(&name, *protocol) == hash;
        let protocol = Protocol::ALL.into_iter().find(is)?;
        Some((name, protocol))
    })
}

/// What is wrong with the endpoints of a group: each with the number of the rule that leads there, that rule, and its chain.
pub(super) fn check(own: &Own<'_>, endpoints: Vec<(usize, &Rule, &Chain)>) -> Vec<Defect> {
    let mut found = Vec::new();
    let verified = verified(own.chain, own.service);
    let destinations: Vec<SocketAddr> = endpoints.iter().filter_map(|(.., chain)| destination_of(chain)).collect();
    let mut by_hash: Option<HashMap<ChainHash, SocketAddr>> = None;
    for (number, rule, chain) in endpoints {
        let Some(to) = destination_of(chain) else { continue };
        found.extend(protocol(own.protocol, chain).map(|kind| Defect { rule: number, kind }));
        let mut address = |named: String, by: &'static str| {
            let (chain, destination) = (chain.name.to_string(), to.to_string());
            found.push(Defect { rule: number, kind: Kind::Address { chain, destination, named, by } });
        };
        if let Some(source) = masqueraded(chain).filter(|source| *source != to.ip()) {
            address(source.to_string(), "its masquerade rule");
            continue;
        }
        if let Some(named) = rule.comment().and_then(commented).filter(|named| *named != to) {
            address(named.to_string(), "the comment of the rule that leads there");
            continue;
        }
        let Some((service, protocol)) = &verified else { continue };
        let Some(hash) = CHAINS.of_endpoint(&chain.name).and_then(ChainHash::parse) else { continue };
        let of = |endpoint: &SocketAddr| ChainHash::of_endpoint(service, *protocol, &endpoint.to_string());
        if of(&to) != hash {
            let all = by_hash.get_or_insert_with(|| destinations.iter().map(|to| (of(to), *to)).collect());
            let named = all.get(&hash).map_or_else(|| "another endpoint".to_owned(), ToString::to_string);
            address(named, "the hash in its name");
        }
    }
    found
}

fn destination_of(chain: &Chain) -> Option<SocketAddr> {
    chain.rules.iter().find_map(destination)
}

/// The protocol that a chain translates instead of the service's.
fn protocol(service: Protocol, chain: &Chain) -> Option<Kind> {
    let translating = || chain.rules.iter().filter(|rule| matches!(rule.target, Some(Target::Dnat(_))));
    let fits = |rule: &Rule| asked(rule).is_none_or(|protocol| protocol == service);
    if translating().any(fits) {
        return None;
    }
    let translates = translating().find_map(asked)?;
    Some(Kind::Protocol { chain: chain.name.to_string(), translates, service })
}

/// The source whose packets a chain marks to be masqueraded: the endpoint itself.
fn masqueraded(chain: &Chain) -> Option<IpAddr> {
    let marking = |rule: &&Rule| rule.next_chain().is_some_and(|next| &**next == MASQUERADE);
    chain.rules.iter().filter(marking).find_map(|rule| {
        let source = rule.source.as_ref().filter(|source| !source.negated)?;
        match &source.value {
            Network::Prefix(range) if range.prefix_len() == range.max_prefix_len() => Some(range.addr()),
            _ => None,
        }
    })
}

/// The endpoint in a comment as `default/web:http -> 10.244.1.2:8080`.
fn commented(comment: &str) -> Option<SocketAddr> {
    comment.rsplit_once(" -> ")?.1.trim().parse().ok()
}
