//! kube-proxy's nftables tables to cascades.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::affinity::{Endpoint, Key as Remembered, Note, Recall, affinity};
use super::defect::{Defect, Kind};
use super::frontend::Frontend;
use super::judge::{About, Extent, judge};
use super::naming::Naming;
use super::walked::{Group, Names, walk};
use super::{Cascade, Chance};
use crate::cluster::Protocol;
use crate::nftables::evaluate::Program;
use crate::nftables::{
    Addresses, Chain, Condition, Datatype, Dynamic, Key, MarkChange, Name, Rule, Set, SetKind, Side, Statement, Table,
    Verdict,
};
use crate::walk::{RuleId, draws_of};

/// The chains of all endpoints of a service port, of those of the node, and of endpoints.
const CHAINS: Naming = Naming { groups: &["service-", "local-"], endpoint: "endpoint-" };
/// The chain that only sets a mark: what it does is known where a text does not show it.
const MARKING: &str = "mark-for-masquerade";

/// Every chain of a table that shares connections out among endpoints, in the table's order.
pub fn numgens(table: &Table) -> Vec<Cascade> {
    numgens_of(table, Extent::Whole)
}

/// The same of a table that may be a part of a whole.
pub fn numgens_of(table: &Table, extent: Extent) -> Vec<Cascade> {
    let shown = table.chains.len();
    let table = completed(table);
    let text = Text::new(&table, shown, extent);
    let groups = table.chains.iter().take(shown).zip(0..).filter(|(chain, _)| CHAINS.is_group(&chain.name));
    groups.filter_map(|(chain, position)| text.cascade(chain, position)).collect()
}

/// A table with all chains and sets that its rules name. Those that were not there come last: nothing is known of the chains, and no
/// client is in the sets.
fn completed(table: &Table) -> Cow<'_, Table> {
    let chains: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
    let sets: HashSet<&str> = table.sets.iter().map(|set| &*set.name).collect();
    let (mut more_chains, mut more_sets) = (Vec::new(), Vec::new());
    let (mut known_chains, mut known_sets) = (HashSet::new(), HashSet::new());
    let elements = table.sets.iter().flat_map(|set| &set.elements).filter_map(|element| element.verdict.as_ref());
    let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
    let named = rules().flat_map(|rule| &rule.statements).flat_map(chains_of);
    for name in named.chain(elements.filter_map(next_chain)) {
        if !chains.contains(&**name) && known_chains.insert(name.clone()) {
            more_chains.push(stub(name));
        }
    }
    for name in rules().flat_map(sets_of) {
        if !sets.contains(&**name) && known_sets.insert(name.clone()) {
            let key = vec![Datatype::Address(table.family)];
            let dynamic = Some(Dynamic { size: 0, timeout: 0 });
            let name = name.clone();
            more_sets.push(Set { name, kind: SetKind::Set, key, comment: None, dynamic, elements: Vec::new() });
        }
    }
    if more_chains.is_empty() && more_sets.is_empty() {
        return Cow::Borrowed(table);
    }
    let mut whole = table.clone();
    whole.chains.extend(more_chains);
    whole.sets.extend(more_sets);
    Cow::Owned(whole)
}

/// A chain in the place of one that is not shown.
fn stub(name: &Name) -> Chain {
    let mut chain = Chain::regular(name.clone());
    if &**name != MARKING {
        let statements = vec![Statement::Other("not shown".into())];
        chain.rules.push(Rule { statements, ..Rule::default() });
    }
    chain
}

fn next_chain(verdict: &Verdict) -> Option<&Name> {
    match verdict {
        Verdict::Goto(chain) | Verdict::Jump(chain) => Some(chain),
        Verdict::Accept | Verdict::Drop | Verdict::Return => None,
    }
}

/// The chains that a statement names.
fn chains_of(statement: &Statement) -> Vec<&Name> {
    match statement {
        Statement::Verdict(verdict) => next_chain(verdict).into_iter().collect(),
        Statement::Balance(chains) => chains.iter().collect(),
        _ => Vec::new(),
    }
}

/// The sets of clients that a rule names.
fn sets_of(rule: &Rule) -> impl Iterator<Item = &Name> {
    let asked = rule.conditions.iter().filter_map(|condition| match condition {
        Condition::Address { value: Addresses::Set(set), .. } | Condition::InSet(_, set) => Some(set),
        _ => None,
    });
    let noted = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Remember(_, set) => Some(set),
        _ => None,
    });
    asked.chain(noted)
}

/// A table in all the ways in which cascades look at it.
struct Text<'a> {
    /// How many chains are in the text; those behind them are known by their names only.
    shown: usize,
    chains: HashMap<&'a str, &'a Chain>,
    missing: HashSet<&'a str>,
    sets: HashMap<&'a str, &'a Set>,
    leads: HashMap<&'a str, Lead<'a>>,
    program: Program,
    extent: Extent,
}

impl<'a> Text<'a> {
    fn new(table: &'a Table, shown: usize, extent: Extent) -> Self {
        Self {
            shown,
            chains: table.chains.iter().take(shown).map(|chain| (&*chain.name, chain)).collect(),
            missing: table.chains.iter().skip(shown).map(|chain| &*chain.name).collect(),
            sets: table.sets.iter().map(|set| (&*set.name, set)).collect(),
            leads: leads(table),
            program: Program::of_chains(table),
            extent,
        }
    }

    fn cascade(&self, chain: &Chain, position: u32) -> Option<Cascade> {
        let frontends = frontends(&chain.name, &self.leads);
        let (service, protocol) = named(&chain.name);
        let protocol = protocol.or_else(|| frontends.first().map(|frontend| frontend.protocol));
        let names = Written { text: self, chain };
        let group = Group {
            program: &self.program,
            chain: position,
            protocol: protocol.unwrap_or(Protocol::Tcp),
            frontends: &frontends,
            names: &names,
        };
        let walked = walk(&group)?;
        let led: Vec<(usize, &str)> =
            chain.rules.iter().zip(1..).flat_map(|(rule, number)| led(rule, number)).collect();
        let (has_affinity, mut defects) = self.affinity(chain, &led);
        defects.extend(self.identity(chain, group.protocol, &led));
        let (chain, extent) = (chain.name.to_string(), self.extent);
        Some(judge(About { service, protocol, frontends, chain, has_affinity, defects, extent }, walked))
    }

    fn affinity(&self, chain: &Chain, led: &[(usize, &str)]) -> (bool, Vec<Defect>) {
        let recalls = chain.rules.iter().zip(1..).filter_map(|(rule, number)| self.recall(rule, number));
        let recalls: Vec<Recall<'_>> = recalls.collect();
        let mut known = HashSet::new();
        let new = led.iter().filter(|(_, chain)| known.insert(*chain));
        let endpoints = new.map(|&(rule, chain)| {
            let notes = self.chains.get(chain).map(|own| own.rules.iter().flat_map(notes).collect());
            Endpoint { rule, chain, notes }
        });
        let endpoints: Vec<Endpoint<'_>> = endpoints.collect();
        let label = |chain: &str| {
            let own = self.chains.get(chain).and_then(|own| destination(own));
            own.map_or_else(|| chain.to_owned(), |to| to.to_string())
        };
        (!recalls.is_empty(), affinity(&recalls, &endpoints, label))
    }

    /// The endpoint's chain that a rule leads clients to that it remembers.
    fn recall<'r>(&self, rule: &'r Rule, number: usize) -> Option<Recall<'r>> {
        let (side, list) = recalled(rule)?;
        let [Statement::Verdict(Verdict::Goto(endpoint) | Verdict::Jump(endpoint))] = rule.statements.as_slice() else {
            return None;
        };
        let dynamic = self.sets.get(list).and_then(|set| set.dynamic);
        let seconds = dynamic.map(|dynamic| dynamic.timeout).filter(|timeout| *timeout > 0);
        let key = Remembered { destination: side == Side::Destination, mask: None };
        Some(Recall { rule: number, list, key, seconds, endpoint, is_plain: rule.conditions.len() == 1 })
    }

    /// What is wrong with where endpoints' chains translate to, by their names and the rules that masquerade.
    fn identity(&self, group: &Chain, service: Protocol, led: &[(usize, &str)]) -> Vec<Defect> {
        let mut found = Vec::new();
        for &(number, name) in led {
            let Some(chain) = self.chains.get(name) else { continue };
            let Some(to) = destination(chain) else { continue };
            let name = chain.name.to_string();
            if let Some(translates) = protocol_of(chain).filter(|translates| *translates != service) {
                let kind = Kind::Protocol { chain: name.clone(), translates, service };
                found.push(Defect { rule: number, kind });
            }
            let destination = to.to_string();
            let by_rule = masqueraded(chain).filter(|source| *source != to.ip()).map(|source| source.to_string());
            let by_name = || named_endpoint(&chain.name).filter(|(_, endpoint)| *endpoint != written(to));
            let other_service = || {
                let own = named_endpoint(&chain.name)?.0;
                let group = CHAINS.of_group(&group.name)?.split_once('-')?.1;
                (own != group && !group.ends_with("...")).then(|| own.to_owned())
            };
            let wrong = by_rule
                .map(|named| (named, "its masquerade rule"))
                .or_else(|| by_name().map(|(_, endpoint)| (endpoint.to_owned(), "its name")))
                .or_else(|| other_service().map(|service| (format!("an endpoint of {service}"), "its name")));
            if let Some((named, by)) = wrong {
                found.push(Defect { rule: number, kind: Kind::Address { chain: name, destination, named, by } });
            }
        }
        found
    }
}

/// What names and written rules say of the walk.
struct Written<'a, 'b> {
    text: &'a Text<'b>,
    chain: &'a Chain,
}

impl Names for Written<'_, '_> {
    fn chance(&self, rule: usize, choice: u32, of: u32) -> Option<Chance> {
        let rule = self.chain.rules.get(rule - 1)?;
        if self.text.recall(rule, 1).is_some() {
            return None;
        }
        let asks = rule.conditions.iter().any(|condition| !matches!(condition, Condition::Protocol(_)));
        Some(if asks { Chance::Condition } else { chance(choice, of) })
    }

    fn naming(&self) -> &Naming {
        &CHAINS
    }

    fn own(&self) -> &str {
        &self.chain.name
    }

    fn chain(&self, position: u32) -> &str {
        self.text.program.chain_name(position)
    }

    fn is_missing(&self, chain: u32) -> bool {
        chain as usize >= self.text.shown
    }

    fn missing(&self, rule: RuleId) -> Option<&str> {
        let place = self.text.program.place(rule);
        self.text.missing.get(place.chain).copied()
    }
}

/// The chance of one of so many numbers.
fn chance(number: u32, of: u32) -> Chance {
    if of <= 1 {
        return Chance::Always;
    }
    Chance::Drawn { draws: u32::try_from(draws_of(number, of)).unwrap_or(u32::MAX), of }
}

/// The endpoints' chains that a rule leads new clients to.
fn led(rule: &Rule, number: usize) -> Vec<(usize, &str)> {
    if recalled(rule).is_some() {
        return Vec::new();
    }
    let chains = rule.statements.iter().flat_map(chains_of).map(|name| &**name);
    chains.filter(|name| CHAINS.is_endpoint(name)).map(|name| (number, name)).collect()
}

/// The side of a packet and the set by which a rule knows clients again.
fn recalled(rule: &Rule) -> Option<(Side, &str)> {
    let leads = rule.statements.iter().flat_map(chains_of).any(|chain| CHAINS.is_endpoint(chain));
    rule.conditions.iter().filter(|_| leads).find_map(|condition| match condition {
        Condition::Address { side, negated: false, value: Addresses::Set(set) } => Some((*side, &**set)),
        _ => None,
    })
}

/// The sets that a rule notes clients in.
fn notes(rule: &Rule) -> Vec<Note<'_>> {
    let noted = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Remember(side, set) => Some((*side == Side::Destination, &**set)),
        _ => None,
    });
    let is_plain = rule.conditions.is_empty();
    noted.map(|(destination, list)| Note { list, key: Remembered { destination, mask: None }, is_plain }).collect()
}

/// Where an endpoint's chain translates to.
fn destination(chain: &Chain) -> Option<SocketAddr> {
    chain.rules.iter().flat_map(|rule| &rule.statements).find_map(|statement| match statement {
        Statement::Dnat(address) => Some(*address),
        _ => None,
    })
}

/// The protocol that a chain translates, where it is but one.
fn protocol_of(chain: &Chain) -> Option<Protocol> {
    let translates = |rule: &&Rule| rule.statements.iter().any(|one| matches!(one, Statement::Dnat(_)));
    let asked = |rule: &Rule| {
        rule.conditions.iter().find_map(|condition| match condition {
            Condition::Protocol(protocol) => Some(*protocol),
            _ => None,
        })
    };
    let mut all = chain.rules.iter().filter(translates).map(asked);
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// The source whose packets a chain marks to be masqueraded: the endpoint itself.
fn masqueraded(chain: &Chain) -> Option<IpAddr> {
    let marks = |statement: &Statement| match statement {
        Statement::Verdict(Verdict::Jump(next)) => &**next == MARKING,
        Statement::Mark(MarkChange::Set(_)) => true,
        _ => false,
    };
    chain.rules.iter().filter(|rule| rule.statements.iter().any(marks)).find_map(|rule| {
        rule.conditions.iter().find_map(|condition| match condition {
            Condition::Address { side: Side::Source, negated: false, value: Addresses::One(source) } => Some(*source),
            _ => None,
        })
    })
}

/// The service port and the endpoint in the name of a chain: `default/web/tcp/http` and `10.244.1.10/8080` of
/// `endpoint-FLXOMXXM-default/web/tcp/http__10.244.1.10/8080`. Nothing where the name was cut.
fn named_endpoint(chain: &str) -> Option<(&str, &str)> {
    let base = CHAINS.of_endpoint(chain)?.split_once('-')?.1;
    base.rsplit_once("__").filter(|_| !chain.ends_with("..."))
}

/// An endpoint as it stands in names.
fn written(to: SocketAddr) -> String {
    format!("{}/{}", to.ip().to_string().replace(':', "."), to.port())
}

/// The service port and protocol in the name of a chain: `default/web:http` and TCP of `service-XXXXXXXX-default/web/tcp/http`.
fn named(chain: &str) -> (String, Option<Protocol>) {
    let parts = || {
        let base = CHAINS.of_group(chain)?;
        let mut parts = base.split_once('-')?.1.splitn(4, '/');
        let (namespace, name, protocol) = (parts.next()?, parts.next()?, parts.next()?);
        let protocol = protocol.parse().ok()?;
        let port = parts.next().filter(|port| !port.is_empty()).map(|port| format!(":{port}")).unwrap_or_default();
        Some((format!("{namespace}/{name}{port}"), Some(protocol)))
    };
    parts().unwrap_or_else(|| (chain.to_owned(), None))
}

/// What leads to a chain: elements of maps, and rules of other chains.
#[derive(Default)]
struct Lead<'a> {
    frontends: Vec<Frontend>,
    chains: Vec<&'a str>,
}

fn leads(table: &Table) -> HashMap<&str, Lead<'_>> {
    let mut leads: HashMap<&str, Lead<'_>> = HashMap::new();
    for element in table.sets.iter().flat_map(|set| &set.elements) {
        if let (Some(Verdict::Goto(chain) | Verdict::Jump(chain)), Some(frontend)) =
            (&element.verdict, frontend(&element.key))
        {
            leads.entry(chain).or_default().frontends.push(frontend);
        }
    }
    for chain in &table.chains {
        for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
            if let Statement::Verdict(Verdict::Goto(next) | Verdict::Jump(next)) = statement
                && !CHAINS.is_endpoint(next)
            {
                leads.entry(next).or_default().chains.push(&chain.name);
            }
        }
    }
    leads
}

fn frontend(key: &[Key]) -> Option<Frontend> {
    let address: Option<IpAddr> =
        key.iter().find_map(|part| if let Key::Address(own) = part { Some(*own) } else { None });
    let protocol = key.iter().find_map(|part| if let Key::Protocol(own) = part { Some(*own) } else { None })?;
    let port = key.iter().find_map(|part| if let Key::Port(own) = part { Some(*own) } else { None })?;
    Some(Frontend { address, port, protocol })
}

/// The addresses and ports whose connections come to a chain, also by way of others; each once.
fn frontends(chain: &str, leads: &HashMap<&str, Lead<'_>>) -> Vec<Frontend> {
    let (mut found, mut known, mut open) = (Vec::new(), HashSet::from([chain]), vec![chain]);
    while let Some(lead) = open.pop().map(|chain| leads.get(chain)) {
        let Some(lead) = lead else { continue };
        found.extend(lead.frontends.iter().filter(|frontend| !found.contains(*frontend)).copied().collect::<Vec<_>>());
        open.extend(lead.chains.iter().filter(|from| known.insert(from)));
    }
    found
}
