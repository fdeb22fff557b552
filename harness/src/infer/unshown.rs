//! Endpoints of which a text shows nothing but the names of their chains: each gets an address, since services are judged by how connections are
//! shared out among them.
//!
//! `grep KUBE-SVC` of kube-proxy up to 1.22 shows `-A KUBE-SVC-X --probability 0.5 -j KUBE-SEP-Y`, and neither KUBE-SEP-Y nor a comment with its
//! address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use svclab_rules::cluster::Family;
use svclab_rules::infer::{Infer, Inferred, InferredPort};
use svclab_rules::iptables::{Chain, ChainHash, ChainKind, Rule, RuleSet, TableName, Target, parse_rule};
use svclab_rules::ruleset::Rules;

use super::service_ports::{is_api_server, usual_numbers};
use super::usual_ranges::{LEAST_LENGTH, around_both, usual_pod_ranges, wide};
use crate::evidence::{NodeRules, service_of_hash};
use crate::scenario::NODE_RANGES;
use crate::text::counted;

/// The most endpoints that get an address; a range has some more.
pub(super) const MAX: usize = 200;

/// The length of the name of an endpoint's chain: its prefix and 16 characters of a hash.
const LENGTH_OF_NAME: usize = 25;

/// The port of the first service's endpoints whose port nothing shows; those of the next services have the next ones.
const PORT: u16 = 8080;

/// An endpoint by the name of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unshown {
    /// The service port, by the hash in its chains' names.
    pub(super) service: ChainHash,
    /// The hash in the name of the endpoint's chain.
    pub(super) own: ChainHash,
    /// Its address and port, which are made up.
    pub(super) address: SocketAddr,
    /// Whether the chain's heading is shown.
    is_declared: bool,
}

/// Adds the chains of endpoints that a rule set jumps to without showing anything of them.
pub(super) fn add(set: &mut NodeRules) -> Vec<Unshown> {
    let Some(rules) = set.rules.iptables() else { return Vec::new() };
    let is_whole = |chain: &str| set.coverage.has_chain(TableName::Nat.as_str(), chain);
    let wanted = wanted(rules, &is_whole);
    if wanted.is_empty() {
        return Vec::new();
    }
    let family = rules.family;
    let inferred = set.rules.infer();
    let mut taken = taken(&inferred, family);
    let near = inferred.proxy.local_sources.iter().find(|range| Family::of(range.addr()) == family).copied();
    let near = near.or_else(|| far_from_usual(&inferred, family));
    let services: BTreeSet<ChainHash> = wanted.iter().map(|one| one.service).collect();
    let usual = |hash: &ChainHash| usual_numbers(&name_of_port(&inferred, *hash)?).map(|(_, target)| target);
    let ports: BTreeMap<ChainHash, u16> =
        services.iter().zip(PORT..).map(|(hash, port)| (*hash, usual(hash).unwrap_or(port))).collect();
    let is_machine = |hash: &ChainHash| name_of_port(&inferred, *hash).is_some_and(|name| is_api_server(&name));
    let machines: BTreeSet<ChainHash> = services.into_iter().filter(is_machine).collect();
    let mut found = Vec::new();
    for (is_machine, is_local) in [(true, false), (false, true), (false, false)] {
        let of_kind = wanted.iter().filter(|one| match machines.contains(&one.service) {
            true => is_machine,
            false => !is_machine && one.is_local == is_local,
        });
        let mut of_kind = of_kind.take(MAX).peekable();
        let own = || if is_machine { machines_near(family, &taken) } else { free(family, near, &taken) };
        let Some(range) = of_kind.peek().and_then(|_| own()) else { continue };
        let addresses = range.hosts().skip(9);
        found.extend(of_kind.zip(addresses).map(|(one, ip)| Unshown {
            service: one.service,
            own: one.own,
            is_declared: false,
            address: SocketAddr::new(ip, ports.get(&one.service).copied().unwrap_or(PORT)),
        }));
        taken.push(range);
    }
    let Rules::Iptables(parsed) = &mut set.rules else { return Vec::new() };
    for endpoint in &mut found {
        let protocol = inferred.ports.iter().find(|port| port.hash == Some(endpoint.service));
        let protocol = protocol.map_or("tcp", |port| port.protocol.as_str());
        let chain = chain_of(endpoint, protocol, family);
        // Whether the text would show a rule with its address is not known.
        set.coverage.add_truncated(TableName::Nat.as_str(), &chain.name);
        let nat = parsed.rules.table_mut(TableName::Nat);
        match nat.chains.iter_mut().find(|own| own.name == chain.name) {
            Some(own) => {
                endpoint.is_declared = true;
                own.rules = chain.rules;
            }
            None => nat.chains.push(chain),
        }
    }
    found
}

/// Takes the chains away again, when it is known what they stand for: kube-proxy's own rules are more than these.
pub(super) fn remove(all: &[Unshown], set: &mut NodeRules) {
    let Rules::Iptables(parsed) = &mut set.rules else { return };
    if all.is_empty() {
        return;
    }
    let names: BTreeMap<String, bool> = all.iter().map(|one| (name_of(one), one.is_declared)).collect();
    let nat = parsed.rules.table_mut(TableName::Nat);
    nat.chains.retain(|chain| names.get(&*chain.name) != Some(&false));
    nat.chains.iter_mut().filter(|chain| names.contains_key(&*chain.name)).for_each(|chain| chain.rules.clear());
}

fn name_of(endpoint: &Unshown) -> String {
    format!("{}{}", ChainKind::Endpoint.prefix(), endpoint.own)
}

/// An endpoint that gets an address.
struct Wanted {
    own: ChainHash,
    service: ChainHash,
    /// Whether the policy Local leads there.
    is_local: bool,
}

/// The endpoints to which rules of services lead, in the order of the rules: kube-proxy sorts endpoints by address.
fn wanted(rules: &RuleSet, is_whole: &dyn Fn(&str) -> bool) -> Vec<Wanted> {
    let (mut wanted, mut positions): (Vec<Wanted>, HashMap<ChainHash, usize>) = (Vec::new(), HashMap::new());
    let Some(nat) = rules.table(TableName::Nat) else { return wanted };
    // What a chain marks or translates shows the address.
    let shows = |chain: &Chain| {
        let translates = |rule: &Rule| matches!(rule.target, Some(Target::Dnat(_))) || rule.source.is_some();
        chain.rules.iter().any(translates)
    };
    for chain in &nat.chains {
        let is_local = ChainKind::ExternalLocal.hash(&chain.name).or(ChainKind::Local.hash(&chain.name));
        let Some(service) = is_local.or(ChainKind::Service.hash(&chain.name)) else { continue };
        for rule in &chain.rules {
            let Some(next) = rule.next_chain() else { continue };
            let Some(own) = ChainKind::Endpoint.hash(next) else { continue };
            let names_it = rule.comment().is_some_and(|comment| comment.contains(" -> "));
            // A line that is cut may end within the name.
            let is_cut = rule.is_unread() && next.len() < LENGTH_OF_NAME;
            if is_cut || names_it || is_whole(next) || nat.chain(next).is_some_and(shows) {
                continue;
            }
            let at = *positions.entry(own).or_insert(wanted.len());
            match wanted.get_mut(at) {
                Some(known) => known.is_local |= is_local.is_some(),
                None => wanted.push(Wanted { own, service, is_local: is_local.is_some() }),
            }
        }
    }
    wanted
}

/// The rules of an endpoint's chain.
fn chain_of(endpoint: &Unshown, protocol: &str, family: Family) -> Chain {
    let (ip, to) = (endpoint.address.ip(), endpoint.address);
    let texts = [
        format!("-s {} -j KUBE-MARK-MASQ", IpNet::from(ip)),
        format!("-p {protocol} -m {protocol} -j DNAT --to-destination {to}"),
    ];
    let mut chain = Chain::user(name_of(endpoint));
    chain.rules = texts.iter().filter_map(|text| parse_rule(text, family).ok()).collect();
    chain
}

/// kube-proxy's name of a service port, from a comment or the hash of its chains.
fn name_of_port(inferred: &Inferred, hash: ChainHash) -> Option<String> {
    let port = inferred.ports.iter().find(|port| port.hash == Some(hash) && !port.is_unnamed());
    port.map(InferredPort::full_name).or_else(|| Some(service_of_hash(hash)?.0.to_owned()))
}

/// A usual range of machines that none of these has.
fn machines_near(family: Family, taken: &[IpNet]) -> Option<IpNet> {
    let mut usual = NODE_RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
    usual.find(|range| {
        Family::of(range.addr()) == family && !taken.iter().any(|other| other.contains(range) || range.contains(other))
    })
}

/// The ranges of a family that pods and services have.
fn taken(inferred: &Inferred, family: Family) -> Vec<IpNet> {
    let length = if family == Family::Ipv4 { 24 } else { 64 };
    let of = |port: &InferredPort| {
        let endpoints = port.endpoints.iter().chain(&port.local).map(SocketAddr::ip);
        let addresses = port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer).copied();
        endpoints.chain(addresses).collect::<Vec<IpAddr>>()
    };
    let all = inferred.ports.iter().flat_map(of).filter(|ip| Family::of(*ip) == family);
    all.map(|ip| IpNet::new_assert(ip, length).trunc()).collect()
}

/// The range of pods that are so far from the usual one that no range of a cluster holds both.
fn far_from_usual(inferred: &Inferred, family: Family) -> Option<IpNet> {
    let usual = usual_pod_ranges(family).next()?;
    let ports = inferred.ports.iter().filter(|port| !is_api_server(&port.full_name()));
    let endpoints = ports.flat_map(|port| port.endpoints.iter().chain(&port.local)).map(SocketAddr::ip);
    let mut ranges = endpoints.filter(|ip| Family::of(*ip) == family).map(|ip| wide(IpNet::from(ip), family));
    ranges.find(|range| around_both(*range, usual).prefix_len() < LEAST_LENGTH)
}

/// A range that none of these has: in the range of local pods, where one is shown.
fn free(family: Family, near: Option<IpNet>, taken: &[IpNet]) -> Option<IpNet> {
    let length = if family == Family::Ipv4 { 24 } else { 64 };
    let near = near.or_else(|| usual_pod_ranges(family).next())?;
    let mut all = wide(near, family).subnets(length).ok()?;
    all.find(|range| !taken.iter().any(|other| other.contains(range) || range.contains(other)))
}

/// What is said of them.
pub(super) fn words(all: &[Unshown]) -> Option<String> {
    let named: Vec<String> = all.iter().take(3).map(|one| one.address.to_string()).collect();
    let more = if all.len() > named.len() { ", ..." } else { "" };
    let count = counted(all.len(), "endpoint");
    (!all.is_empty()).then(|| format!("addresses of {count}, which nothing shows: {}{more}", named.join(", ")))
}
