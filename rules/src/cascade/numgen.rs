//! kube-proxy's nftables tables to cascades.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::defect::{Defect, Kind};
use super::front::Front;
use super::ledger::{Entry, Ledger};
use super::{Cascade, Chance};
use crate::cluster::Protocol;
use crate::nftables::{Addresses, Chain, Condition, Key, Name, Rule, Side, Statement, Table, Verdict};
use crate::walk::Share;

/// The beginnings of the names of chains that share connections out: among all endpoints, and among those of the node.
const GROUPS: [&str; 2] = ["service-", "local-"];
/// The beginning of the names of endpoints' chains.
const ENDPOINT: &str = "endpoint-";
/// What `numgen` draws from.
const DRAWS: u64 = 1 << 32;

/// Every chain of a table that shares connections out among endpoints, in the table's order.
pub fn numgens(table: &Table) -> Vec<Cascade> {
    let of_endpoints = table.chains.iter().filter(|chain| chain.name.starts_with(ENDPOINT));
    let endpoints: HashMap<&str, &Chain> = of_endpoints.map(|chain| (&*chain.name, chain)).collect();
    let leads = leads(table);
    let groups = table.chains.iter().filter(|chain| GROUPS.iter().any(|group| chain.name.starts_with(group)));
    groups.filter_map(|chain| cascade(chain, &endpoints, fronts(&chain.name, &leads))).collect()
}

fn cascade(chain: &Chain, endpoints: &HashMap<&str, &Chain>, fronts: Vec<Front>) -> Option<Cascade> {
    let mut ledger = Ledger::new(0);
    let (mut kept, mut new) = (Vec::new(), HashSet::new());
    for (rule, number) in chain.rules.iter().zip(1..) {
        if let Some(endpoint) = remembered(rule) {
            kept.push((number, endpoint));
        }
        if let Some(Statement::Balance(members)) = rule.statements.last() {
            new.extend(members.iter().map(|name| &**name));
        }
        share_out(&mut ledger, rule, number, endpoints);
    }
    if ledger.steps.is_empty() && ledger.defects.is_empty() {
        return None;
    }
    let (service, protocol) = named(&chain.name);
    let protocol = protocol.or_else(|| fronts.first().map(|front| front.protocol));
    ledger.defects.extend(affinity(&kept, &new, endpoints));
    // What lots of an unknown kind leave is not known either.
    if ledger.defects.iter().any(|defect| defect.kind == Kind::NotModelled) {
        ledger.left = Share::ZERO;
    }
    ledger.finish();
    let (count, has_affinity) = (ledger.endpoints(), !kept.is_empty());
    let Ledger { left, steps, defects, .. } = ledger;
    let chain = chain.name.to_string();
    Some(Cascade { service, protocol, fronts, chain, steps, endpoints: count, left, has_affinity, defects })
}

/// Takes what a rule shares out.
fn share_out(ledger: &mut Ledger, rule: &Rule, number: usize, endpoints: &HashMap<&str, &Chain>) {
    match rule.statements.last() {
        Some(Statement::Balance(members)) => {
            let chances = chances(members.len());
            ledger
                .share_out(members.iter().zip(chances).map(|(name, chance)| to_chain(number, name, chance, endpoints)));
        }
        Some(Statement::BalanceDnat(members)) => {
            let chances = chances(members.len());
            ledger.share_out(members.iter().zip(chances).map(|(to, chance)| to_address(number, *to, chance)));
        }
        Some(Statement::Dnat(address)) => {
            ledger.share_out(std::iter::once(to_address(number, *address, Chance::Always)));
        }
        Some(Statement::Other(text)) if text.contains("numgen") => ledger.found(number, Kind::NotModelled),
        _ => {}
    }
}

/// The chances of so many numbers, in their order.
fn chances(of: usize) -> impl Iterator<Item = Chance> {
    let of = u32::try_from(of).unwrap_or(u32::MAX);
    (0..of).map(move |number| chance(number, of))
}

/// The chance of one of so many numbers. `reciprocal_scale` gives number i for the draws r with r * n / 2^32 from i to i + 1.
fn chance(number: u32, of: u32) -> Chance {
    if of <= 1 {
        return Chance::Always;
    }
    let begin = |number: u64| (number * DRAWS).div_ceil(u64::from(of));
    let draws = begin(u64::from(number) + 1) - begin(u64::from(number));
    Chance::Drawn { draws: u32::try_from(draws).unwrap_or(u32::MAX), of }
}

fn to_chain<'a>(rule: usize, chain: &'a Name, chance: Chance, endpoints: &HashMap<&str, &Chain>) -> Entry<'a> {
    let own = endpoints.get(&**chain);
    let destination = own.and_then(|own| destination(own));
    let returns = own.is_some() && destination.is_none();
    Entry { rule, chain, endpoint: destination.unwrap_or_else(|| chain.to_string()), chance, returns }
}

fn to_address(rule: usize, address: SocketAddr, chance: Chance) -> Entry<'static> {
    Entry { rule, chain: "", endpoint: address.to_string(), chance, returns: false }
}

/// Where an endpoint's chain translates to.
fn destination(chain: &Chain) -> Option<String> {
    chain.rules.iter().flat_map(|rule| &rule.statements).find_map(|statement| match statement {
        Statement::Dnat(address) => Some(address.to_string()),
        _ => None,
    })
}

/// The endpoint's chain that a rule leads clients to that it remembers.
fn remembered(rule: &Rule) -> Option<&str> {
    let is_known = rule.conditions.iter().any(|condition| {
        matches!(condition, Condition::Address { side: Side::Source, negated: false, value: Addresses::Set(_) })
    });
    match rule.statements.last() {
        Some(Statement::Verdict(Verdict::Goto(chain) | Verdict::Jump(chain)))
            if is_known && chain.starts_with(ENDPOINT) =>
        {
            Some(chain)
        }
        _ => None,
    }
}

fn affinity(kept: &[(usize, &str)], new: &HashSet<&str>, endpoints: &HashMap<&str, &Chain>) -> Vec<Defect> {
    let label = |chain: &str| endpoints.get(chain).and_then(|own| destination(own)).unwrap_or_else(|| chain.to_owned());
    let only = kept.iter().filter(|(_, chain)| !new.contains(chain));
    let only = only.map(|(rule, chain)| Defect { rule: *rule, kind: Kind::OldClientsOnly { endpoint: label(chain) } });
    let is_kept = |chain: &&&str| kept.iter().any(|(_, other)| other == *chain);
    let mut lost: Vec<&str> = new.iter().filter(|chain| !kept.is_empty() && !is_kept(chain)).copied().collect();
    lost.sort_unstable();
    let lost = lost.into_iter().map(|chain| Defect { rule: 0, kind: Kind::NoAffinity { endpoint: label(chain) } });
    only.chain(lost).collect()
}

/// The service port and protocol in the name of a chain: `default/web:http` and TCP of `service-XXXXXXXX-default/web/tcp/http`.
fn named(chain: &str) -> (String, Option<Protocol>) {
    let parts = || {
        let base = GROUPS.iter().find_map(|group| chain.strip_prefix(group))?;
        let mut parts = base.split_once('-')?.1.splitn(4, '/');
        let (namespace, name, protocol) = (parts.next()?, parts.next()?, parts.next()?);
        let protocol =
            [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|own| own.as_str() == protocol)?;
        let port = parts.next().filter(|port| !port.is_empty()).map(|port| format!(":{port}")).unwrap_or_default();
        Some((format!("{namespace}/{name}{port}"), Some(protocol)))
    };
    parts().unwrap_or_else(|| (chain.to_owned(), None))
}

/// What leads to a chain: elements of maps, and rules of other chains.
#[derive(Default)]
struct Lead<'a> {
    fronts: Vec<Front>,
    chains: Vec<&'a str>,
}

fn leads(table: &Table) -> HashMap<&str, Lead<'_>> {
    let mut leads: HashMap<&str, Lead<'_>> = HashMap::new();
    for element in table.sets.iter().flat_map(|set| &set.elements) {
        if let (Some(Verdict::Goto(chain) | Verdict::Jump(chain)), Some(front)) =
            (&element.verdict, front(&element.key))
        {
            leads.entry(chain).or_default().fronts.push(front);
        }
    }
    for chain in &table.chains {
        for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
            if let Statement::Verdict(Verdict::Goto(next) | Verdict::Jump(next)) = statement
                && !next.starts_with(ENDPOINT)
            {
                leads.entry(next).or_default().chains.push(&chain.name);
            }
        }
    }
    leads
}

fn front(key: &[Key]) -> Option<Front> {
    let address: Option<IpAddr> =
        key.iter().find_map(|part| if let Key::Address(own) = part { Some(*own) } else { None });
    let protocol = key.iter().find_map(|part| if let Key::Protocol(own) = part { Some(*own) } else { None })?;
    let port = key.iter().find_map(|part| if let Key::Port(own) = part { Some(*own) } else { None })?;
    Some(Front { address, port, protocol })
}

/// The addresses and ports whose connections come to a chain, also by way of others; each once.
fn fronts(chain: &str, leads: &HashMap<&str, Lead<'_>>) -> Vec<Front> {
    let (mut found, mut known, mut open) = (Vec::new(), HashSet::from([chain]), vec![chain]);
    while let Some(lead) = open.pop().map(|chain| leads.get(chain)) {
        let Some(lead) = lead else { continue };
        found.extend(lead.fronts.iter().filter(|front| !found.contains(*front)).copied().collect::<Vec<_>>());
        open.extend(lead.chains.iter().filter(|from| known.insert(from)));
    }
    found
}
