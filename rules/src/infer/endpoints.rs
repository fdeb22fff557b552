//! The endpoints of service ports.

use std::net::{IpAddr, SocketAddr};

use super::model::{DEFAULT_AFFINITY_TIMEOUT, InferredPort};
use crate::chains::{Kind, Lead, Policy, Reading, To};
use crate::cluster::Protocol;
use crate::iptables::ChainHash;

/// What a group of endpoints reveals about its service port.
pub(super) struct Endpoints<'a> {
    /// The service port in the chain's name.
    pub(super) base: &'a str,
    policy: Policy,
    endpoints: Vec<Shown>,
    /// Endpoints whose chain has no DNAT, with the hash in its name.
    lost: Vec<(IpAddr, Option<ChainHash>)>,
    affinity: Option<u32>,
}

impl Endpoints<'_> {
    pub(super) fn add_to(self, port: &mut InferredPort) {
        let lost = self.recovered(port);
        let (names, protocol, mut also) = (port.hashed_names(), port.protocol, Vec::new());
        let all = if self.policy == Policy::Cluster { &mut port.endpoints } else { &mut port.local };
        for endpoint in &self.endpoints {
            let meant = endpoint.meant(&names, protocol);
            all.insert(meant);
            also.extend(endpoint.others.iter().filter(|other| **other != meant).map(|other| (meant, *other)));
        }
        all.extend(lost);
        port.also.extend(also);
        port.affinity = port.affinity.or(self.affinity);
    }

    /// Returns the endpoints that chains without DNAT were created for: from the address that each marks and the hash in its name, otherwise with
    /// the port of the other endpoints.
    fn recovered(&self, port: &InferredPort) -> Vec<SocketAddr> {
        let mut likely: Vec<u16> = self.endpoints.iter().map(|endpoint| endpoint.to.port()).chain(port.port).collect();
        let names = port.hashed_names();
        // If no port fits an endpoint, another name was hashed, and none fits the others.
        let mut may_fit = !port.is_unnamed();
        let mut recovered = Vec::new();
        for (ip, hash) in self.lost.iter().copied().take(MAX_LOST) {
            let is_it = |number: &u16| {
                hash.is_some_and(|hash| is_of(hash, &names, port.protocol, SocketAddr::new(ip, *number)))
            };
            let search = || likely.iter().chain(&USUAL).copied().chain(1..=u16::MAX).find(is_it);
            let by_hash = if may_fit && hash.is_some() { search() } else { None };
            may_fit &= by_hash.is_some() || hash.is_none();
            likely.extend(by_hash.filter(|found| !likely.contains(found)));
            let first = by_hash.or(likely.first().copied());
            recovered.push(SocketAddr::new(ip, first.unwrap_or(80)));
        }
        recovered
    }
}

/// An endpoint found in a rule or in its chain.
struct Shown {
    /// The DNAT destination of its chain.
    to: SocketAddr,
    /// The endpoints in its comment and masquerade rule.
    others: Vec<SocketAddr>,
    /// The hash in its chain's name.
    hash: Option<ChainHash>,
    /// The endpoint in its chain's name, if the hash there confirms it.
    confirmed: Option<SocketAddr>,
}

impl Shown {
    /// Returns the endpoint that the chain was created for: the hash decides between candidates.
    fn meant(&self, names: &[String], protocol: Protocol) -> SocketAddr {
        let is_own = |to: &SocketAddr| self.hash.is_some_and(|hash| is_of(hash, names, protocol, *to));
        let hashed = || std::iter::once(&self.to).chain(&self.others).copied().find(is_own);
        self.confirmed.or_else(hashed).unwrap_or(self.to)
    }
}

fn is_of(hash: ChainHash, names: &[String], protocol: Protocol, to: SocketAddr) -> bool {
    let to = to.to_string();
    names.iter().any(|name| ChainHash::for_endpoint(name, protocol, &to) == hash)
}

/// Maximum number of endpoints whose port is searched by hash.
const MAX_LOST: usize = 64;

/// The ports that are tried first.
const USUAL: [u16; 8] = [8080, 80, 443, 8443, 53, 9153, 6443, 9090];

/// Returns the endpoints of all groups, and the affinity timeouts.
pub(super) fn endpoints<'a>(reading: &impl Reading<'a>) -> Vec<Endpoints<'a>> {
    let of_group = |chain: &'a str| {
        let (kind, base) = reading.naming().of(chain)?;
        let Kind::Group(policy) = kind else { return None };
        let leads = reading.group(chain)?.leads;
        let mut lost = Vec::new();
        // A missing rule is a defect of the rules, not of the Service.
        let mut endpoint = |lead: &Lead<'a>| match lead.to {
            To::Chain(chain) => {
                let known = reading.endpoint(chain);
                let hash = reading.naming().endpoint_part(chain).and_then(ChainHash::parse);
                let to = known.as_ref().and_then(|known| known.destination).or(lead.named);
                let to = to.or_else(|| reading.named_endpoint(chain));
                let masqueraded = known.and_then(|known| known.masqueraded?.only());
                if let (None, Some(ip)) = (to, masqueraded) {
                    lost.push((ip, hash));
                }
                let to = to?;
                let by_source = masqueraded.map(|ip| SocketAddr::new(ip, to.port()));
                let others = lead.named.into_iter().chain(by_source).filter(|other| *other != to).collect();
                Some(Shown { to, others, hash, confirmed: reading.confirmed_endpoint(chain) })
            }
            To::Address(to) => Some(Shown { to, others: Vec::new(), hash: None, confirmed: None }),
        };
        // The set that has the timeout may not be in the text.
        let recalls = leads.iter().any(|lead| lead.recall.is_some());
        let affinity = leads.iter().find_map(|lead| lead.recall.as_ref()?.seconds);
        let affinity = affinity.or(recalls.then_some(DEFAULT_AFFINITY_TIMEOUT));
        let endpoints = leads.iter().filter_map(&mut endpoint).collect();
        Some(Endpoints { base, policy, endpoints, lost, affinity })
    };
    reading.groups().into_iter().filter_map(of_group).collect()
}
