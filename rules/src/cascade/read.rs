//! iptables rules to cascades.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::check::check;
use super::defect::{Defect, Kind};
use super::front::{Front, Leads};
use super::ledger::{Entry, Ledger};
use super::{Cascade, Chance};
use crate::cluster::Protocol;
use crate::iptables::{Chain, Match, Nat, Ports, Rule, RuleSet, Statistic, TableName, Target};

/// The beginnings of the names of chains that share connections out, in every release.
const GROUPS: [&str; 3] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-XLB-"];
/// The beginning of the names of endpoints' chains.
const ENDPOINT: &str = "KUBE-SEP-";

/// Every chain of a rule set that shares connections out among endpoints, in the rule set's order: kube-proxy's chains of
/// services, and chains of others that translate by chance themselves.
pub fn cascades(rules: &RuleSet) -> Vec<Cascade> {
    let Some(nat) = rules.table(TableName::Nat) else { return Vec::new() };
    let is_endpoint = |name: &str| name.starts_with(ENDPOINT);
    let of_endpoints = nat.chains.iter().filter(|chain| is_endpoint(&chain.name));
    let endpoints: HashMap<&str, &Chain> = of_endpoints.map(|chain| (&*chain.name, chain)).collect();
    let leads = Leads::of(nat, is_endpoint);
    let is_group = |chain: &&Chain| GROUPS.iter().any(|group| chain.name.starts_with(group)) || draws_lots(chain);
    let groups = nat.chains.iter().filter(is_group);
    let mut cascades: Vec<Cascade> =
        groups.filter_map(|chain| cascade(chain, &endpoints, leads.fronts(&chain.name))).collect();
    orphans(nat.chains.as_slice(), &mut cascades);
    cascades
}

/// Whether a rule of a chain translates by chance, as people write cascades by hand.
fn draws_lots(chain: &Chain) -> bool {
    let by_chance = |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(Statistic::Random(_))));
    chain.rules.iter().any(|rule| destination(rule).is_some() && by_chance(rule))
}

/// A rule of a group that leads to an endpoint.
struct Led<'a> {
    number: usize,
    /// The endpoint's chain; empty where the rule translates by itself.
    chain: &'a str,
    /// Where the rule translates to by itself.
    to: Option<SocketAddr>,
    asks: Asks,
}

/// What a rule asks for.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    /// A draw, or nothing, or something of the packet.
    Chance(Chance),
    /// That the client was here before.
    Affinity,
}

fn cascade(chain: &Chain, endpoints: &HashMap<&str, &Chain>, fronts: Vec<Front>) -> Option<Cascade> {
    let led: Vec<Led<'_>> = chain.rules.iter().zip(1..).filter_map(|(rule, number)| led(rule, number)).collect();
    let (affine, led): (Vec<_>, Vec<_>) = led.into_iter().partition(|one| one.asks == Asks::Affinity);
    let own = endpoints.get(led.first()?.chain).map(|own| own.rules.as_slice()).unwrap_or_default();
    let service = chain.rules.iter().chain(own).find_map(service_in).unwrap_or(&chain.name).to_owned();
    let protocol =
        own.iter().chain(&chain.rules).find_map(protocol).or_else(|| fronts.first().map(|front| front.protocol));
    let mut ledger = Ledger::new(led.len());
    led.iter().for_each(|one| take(&mut ledger, one, endpoints));
    let (count, has_affinity) = (ledger.endpoints(), !affine.is_empty());
    let uneven = check(&ledger.steps, count);
    ledger.defects.extend(uneven.into_iter().chain(affinity(&affine, &led, endpoints)));
    ledger.finish();
    let Ledger { left, steps, defects, .. } = ledger;
    let chain = chain.name.to_string();
    Some(Cascade { service, protocol, fronts, chain, steps, endpoints: count, left, has_affinity, defects })
}

/// `namespace/name:port` in a rule's comment.
fn service_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

fn protocol(rule: &Rule) -> Option<Protocol> {
    rule.protocol.filter(|protocol| !protocol.negated).and_then(|protocol| protocol.value.transport())
}

fn led(rule: &Rule, number: usize) -> Option<Led<'_>> {
    if let Some(to) = destination(rule) {
        return Some(Led { number, chain: "", to: Some(to), asks: asks(rule) });
    }
    let chain = rule.next_chain().filter(|next| next.starts_with(ENDPOINT))?;
    Some(Led { number, chain, to: None, asks: asks(rule) })
}

/// What a rule asks for, beside what all rules of a service's chain have in common: a protocol.
fn asks(rule: &Rule) -> Asks {
    let mut chance = Chance::Always;
    for one in &rule.matches {
        chance = match (one, chance) {
            (Match::Comment(_) | Match::Nfacct(_), chance) => chance,
            (Match::Ports(ports), chance) if *ports == Ports::any(ports.protocol) => chance,
            (Match::Statistic(Statistic::Random(random)), Chance::Always) if !random.negated => {
                Chance::Below(random.value)
            }
            (Match::Recent(_), _) => return Asks::Affinity,
            _ => Chance::Condition,
        };
    }
    let asks = rule.source.is_some()
        || rule.destination.is_some()
        || rule.in_interface.is_some()
        || rule.out_interface.is_some();
    Asks::Chance(if asks { Chance::Condition } else { chance })
}

/// Endpoints that clients are kept at, but new ones not led to; and those that new clients are led to, but not kept at.
fn affinity(affine: &[Led<'_>], led: &[Led<'_>], endpoints: &HashMap<&str, &Chain>) -> Vec<Defect> {
    let names = |list: &[Led<'_>]| list.iter().map(|one| one.chain.to_owned()).collect::<HashSet<_>>();
    let (kept, new) = (names(affine), names(led));
    let label = |chain: &str| label(chain, destination_of(chain, endpoints));
    let only = affine.iter().filter(|one| !new.contains(one.chain));
    let only = only.map(|one| (one.number, Kind::OldClientsOnly { endpoint: label(one.chain) }));
    let lost = led.iter().filter(|one| !affine.is_empty() && !kept.contains(one.chain));
    let lost = lost.map(|one| (one.number, Kind::NoAffinity { endpoint: label(one.chain) }));
    only.chain(lost).map(|(rule, kind)| Defect { rule, kind }).collect()
}

/// Takes the share of a rule.
fn take(ledger: &mut Ledger, led: &Led<'_>, endpoints: &HashMap<&str, &Chain>) {
    let Asks::Chance(chance) = led.asks else { return };
    let destination = led.to.or_else(|| destination_of(led.chain, endpoints));
    // A chain that is not in the text may lead anywhere; one that is, and translates nothing, returns.
    let returns = destination.is_none() && endpoints.contains_key(led.chain);
    let endpoint = label(led.chain, destination);
    ledger.take(Entry { rule: led.number, chain: led.chain, endpoint, chance, returns });
}

/// What an endpoint is called.
fn label(chain: &str, destination: Option<SocketAddr>) -> String {
    destination.map_or_else(|| chain.to_owned(), |address| crate::digits::socket(address).to_string())
}

fn destination_of(chain: &str, endpoints: &HashMap<&str, &Chain>) -> Option<SocketAddr> {
    endpoints.get(chain)?.rules.iter().find_map(destination)
}

/// Where a rule translates to.
fn destination(rule: &Rule) -> Option<SocketAddr> {
    match &rule.target {
        Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) => {
            Some(SocketAddr::new(*address, ports.first))
        }
        _ => None,
    }
}

/// Finds endpoints that translate for a service, but that no rule leads to.
fn orphans(chains: &[Chain], cascades: &mut [Cascade]) {
    let jumps = chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).filter(|next| next.starts_with(ENDPOINT)).collect();
    let alone = chains.iter().filter(|chain| chain.name.starts_with(ENDPOINT) && !led.contains(&*chain.name));
    for chain in alone {
        let Some((address, service)) =
            chain.rules.iter().find_map(destination).zip(chain.rules.iter().find_map(service_in))
        else {
            continue;
        };
        let kind = Kind::Orphan { endpoint: address.to_string(), chain: chain.name.to_string() };
        if let Some(own) = cascades.iter_mut().find(|cascade| cascade.service == service) {
            own.defects.push(Defect { rule: 0, kind });
        }
    }
}
