//! Balancing among a service port's endpoints: affinity, random rules, and the endpoints' chains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::super::ast::{Chain, Rule};
use super::super::chain_name::{ChainHash, ChainKind};
use super::super::matches::{Match, Ports, Probability, Recent, RecentAction, Statistic};
use super::super::targets::{Nat, Target};
use super::super::values::{ChainName, Negatable, PortRange};
use super::rule::{commented, rule};
use super::{Generator, PortContext};
use crate::cluster::{Family, Protocol};
use crate::profile::Profile;

/// The input for an endpoint's chain. Most chains of a document are endpoint chains, so they are built last, in the order of names: memory
/// is then laid out in reading order.
pub(super) struct EndpointChain {
    pub(super) hash: ChainHash,
    address: SocketAddr,
    protocol: Protocol,
    /// Whether the service has session affinity.
    affinity: bool,
    comment: Option<Arc<str>>,
}

/// Returns the probability 1/n as the kernel reads it from the decimal number that kube-proxy writes. `None` for 1.
pub(super) fn one_in(n: usize, profile: Profile) -> Option<Probability> {
    if n < 2 {
        return None;
    }
    let written = format!("{:.*}", profile.probability_digits(), 1.0 / n as f64);
    written.parse().ok().and_then(Probability::from_number)
}

impl Generator<'_> {
    /// Returns the hashes of a service port's endpoints, in the view's order.
    pub(super) fn endpoint_hashes(&self, port: &PortContext<'_>) -> Vec<ChainHash> {
        let protocol = port.view.port.protocol;
        let endpoints = port.view.endpoints.iter();
        endpoints.map(|endpoint| ChainHash::for_endpoint(&port.name, protocol, &endpoint.text)).collect()
    }

    /// Returns the rules that send a returning client to the endpoint it had before.
    pub(super) fn affinity(&self, port: &PortContext<'_>, hashes: &[ChainHash], members: &[usize]) -> Vec<Rule> {
        let Some(seconds) = port.view.service.affinity_seconds else { return Vec::new() };
        let rules = members.iter().map(|index| {
            let chain = hashes[*index].chain(ChainKind::Endpoint);
            let recent = Recent { seconds: Some(seconds), reap: true, ..self.recent(RecentAction::Check, &chain) };
            self.to_endpoint(port, *index).with(Match::Recent(Box::new(recent))).jump(&chain)
        });
        rules.collect()
    }

    /// Returns the rules that balance traffic evenly: the first of n endpoints with probability 1/n, the next with 1/(n-1), the last
    /// always.
    pub(super) fn balance(&self, port: &PortContext<'_>, hashes: &[ChainHash], members: &[usize]) -> Vec<Rule> {
        let count = members.len();
        let rules = members.iter().enumerate().map(|(position, index)| {
            let chain = hashes[*index].chain(ChainKind::Endpoint);
            self.one_of(self.to_endpoint(port, *index), count - position).jump(&chain)
        });
        rules.collect()
    }

    /// Adds a probability of 1/n to the rule; none for the last.
    pub(super) fn one_of(&self, rule: Rule, n: usize) -> Rule {
        match self.chances.get(n).copied().flatten() {
            Some(chance) => rule.with(Match::Statistic(Statistic::Random(Negatable::is(chance)))),
            None => rule,
        }
    }

    /// Returns a rule with the comment of a jump to an endpoint.
    fn to_endpoint(&self, port: &PortContext<'_>, index: usize) -> Rule {
        if self.large {
            rule()
        } else if self.profile.comments_name_endpoint() {
            commented(format!("{} -> {}", port.name, port.view.endpoints[index].text))
        } else {
            commented(port.name.clone())
        }
    }

    /// Records that an endpoint needs a chain.
    pub(super) fn use_endpoint(&mut self, port: &PortContext<'_>, index: usize, hash: ChainHash) {
        self.nat.endpoints.push(EndpointChain {
            hash,
            address: port.view.endpoints[index].address,
            protocol: port.view.port.protocol,
            affinity: port.view.service.affinity_seconds.is_some(),
            comment: (!self.large).then(|| port.name.clone()),
        });
    }

    /// Builds the chain of an endpoint: its connections to itself are masqueraded, all are translated.
    pub(super) fn endpoint_chain(&self, endpoint: EndpointChain) -> Chain {
        let EndpointChain { hash, address, protocol, affinity, comment } = endpoint;
        let name = hash.chain(ChainKind::Endpoint);
        let start = || comment.clone().map_or_else(rule, commented);
        let hairpin = start().sent_from(address.ip()).jump(&self.names.mark_masq);
        let mut translate = start();
        if affinity {
            let recent = self.recent(RecentAction::Set, &name);
            translate = translate.with(Match::Recent(Box::new(recent)));
        }
        translate.protocol = Some(Negatable::is(protocol.into()));
        let nat = Nat {
            addresses: Some((address.ip(), address.ip())),
            ports: Some(PortRange::one(address.port())),
            ..Nat::default()
        };
        let translate = translate.with(Match::Ports(Ports::any(protocol))).then(Target::Dnat(nat));
        Chain { rules: vec![hairpin, translate], ..Chain::user(name) }
    }

    fn recent(&self, action: RecentAction, chain: &ChainName) -> Recent {
        let mask: IpAddr = match self.family {
            Family::Ipv4 => Ipv4Addr::BROADCAST.into(),
            Family::Ipv6 => Ipv6Addr::from_bits(u128::MAX).into(),
        };
        Recent {
            action: Negatable::is(action),
            seconds: None,
            reap: false,
            hit_count: None,
            same_ttl: false,
            name: (**chain).into(),
            mask,
            destination: false,
        }
    }
}
