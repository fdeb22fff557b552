//! From a service port's chain to its endpoints: affinity, chance, and the endpoints' own chains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::ast::{Chain, ChainName, Negatable, Rule};
use super::super::chain_name::ChainHash;
use super::super::matches::{Match, PortRange, Ports, Probability, Recent, RecentAction, Statistic};
use super::super::target::{Nat, Target};
use super::rule::{commented, rule};
use super::{Generator, PortContext};
use crate::cluster::Family;
use crate::profile::Profile;

/// The chance of one in n: what the kernel makes of the decimal number that kube-proxy writes. `None` where it is
/// certain.
pub(super) fn one_in(n: usize, profile: Profile) -> Option<Probability> {
    if n < 2 {
        return None;
    }
    let written = format!("{:.*}", profile.probability_digits(), 1.0 / n as f64);
    written.parse().ok().and_then(Probability::from_number)
}

impl Generator<'_> {
    /// The names of the chains of a service port's endpoints, in the view's order.
    pub(super) fn endpoint_chains(&self, port: &PortContext<'_>) -> Vec<ChainName> {
        let protocol = port.view.port.protocol;
        let endpoints = port.view.endpoints.iter();
        endpoints
            .map(|endpoint| ChainHash::of_endpoint(&port.name, protocol, &endpoint.text).chain("KUBE-SEP-"))
            .collect()
    }

    /// Rules that send a known client to the endpoint it had before.
    pub(super) fn affinity(&self, port: &PortContext<'_>, chains: &[ChainName], members: &[usize]) -> Vec<Rule> {
        let Some(seconds) = port.view.service.affinity_seconds else { return Vec::new() };
        let rules = members.iter().map(|index| {
            let chain = &chains[*index];
            let recent = Recent { seconds: Some(seconds), reap: true, ..self.recent(RecentAction::Check, chain) };
            self.to_endpoint(port, *index).with(Match::Recent(Box::new(recent))).jump(chain)
        });
        rules.collect()
    }

    /// Rules that share traffic out evenly: the first of n endpoints by a chance of 1/n, the next by 1/(n-1), the last
    /// always.
    pub(super) fn balance(&self, port: &PortContext<'_>, chains: &[ChainName], members: &[usize]) -> Vec<Rule> {
        let count = members.len();
        let rules = members.iter().enumerate().map(|(position, index)| {
            self.one_of(self.to_endpoint(port, *index), count - position).jump(&chains[*index])
        });
        rules.collect()
    }

    /// The rule, with a chance of 1/n; always for the last.
    pub(super) fn one_of(&self, rule: Rule, n: usize) -> Rule {
        match self.chances.get(n).copied().flatten() {
            Some(chance) => rule.with(Match::Statistic(Statistic::Random(Negatable::is(chance)))),
            None => rule,
        }
    }

    /// A rule with the comment of those that lead to an endpoint.
    fn to_endpoint(&self, port: &PortContext<'_>, index: usize) -> Rule {
        if self.large {
            rule()
        } else if self.profile.comments_name_endpoint() {
            commented(format!("{} -> {}", port.name, port.view.endpoints[index].text))
        } else {
            commented(port.name.clone())
        }
    }

    /// The chain of an endpoint: what comes back to its own source is masqueraded, all is translated.
    pub(super) fn endpoint_chain(&self, port: &PortContext<'_>, index: usize, name: &ChainName) -> Chain {
        let address = port.view.endpoints[index].address;
        let protocol = port.view.port.protocol;
        let start = || if self.large { rule() } else { commented(port.name.clone()) };
        let hairpin = start().sent_from(address.ip()).jump(&self.names.mark_masq);
        let mut translate = start();
        if port.view.service.affinity_seconds.is_some() {
            let recent = self.recent(RecentAction::Set, name);
            translate = translate.with(Match::Recent(Box::new(recent)));
        }
        translate.protocol = Some(Negatable::is(protocol.into()));
        let nat = Nat {
            addresses: Some((address.ip(), address.ip())),
            ports: Some(PortRange::one(address.port())),
            ..Nat::default()
        };
        let translate = translate.with(Match::Ports(Ports::any(protocol))).then(Target::Dnat(nat));
        Chain { rules: vec![hairpin, translate], ..Chain::user(name.clone()) }
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
