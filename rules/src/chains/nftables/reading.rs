//! The chains of a table that balance connections.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::NAMING;
use super::names::name_of;
use super::rule::{destinations_of, drawn, frontend_of_key, gap, marks, masqueraded, notes, protocol, recalled};
use super::structure::copies_of;
use crate::chains::{Chance, Endpoint, Group, Key, Lead, Mismatch, Naming, Note, Reading, Recall, Routes, To};
use crate::cluster::{Family, Protocol};
use crate::nftables::{
    self, Addresses, Chain, Condition, Datatype, Dynamic, Name, Rule, Set, SetKind, Side, Statement, Verdict,
};

/// A table with its chains and sets by name, and the rules that lead to chains.
pub(crate) struct Table<'a> {
    /// The chains that the text contains, in order.
    shown: &'a [Chain],
    chains: HashMap<&'a str, &'a Chain>,
    /// The chains that rules name but the text does not contain.
    missing: HashSet<&'a str>,
    sets: HashMap<&'a str, &'a Set>,
    routes: Routes<'a>,
    family: Family,
}

impl<'a> Table<'a> {
    /// Reads a [`completed`] table; the first `shown` chains are in the text.
    pub(crate) fn new(table: &'a nftables::Table, shown: usize) -> Self {
        let (shown, missing) = table.chains.split_at(shown);
        let mut routes = Routes::default();
        for element in table.sets.iter().flat_map(|set| &set.elements) {
            let chain = element.verdict.as_ref().and_then(Verdict::chain);
            if let Some((chain, frontend)) = chain.zip(frontend_of_key(&element.key)) {
                routes.add_frontend(chain, frontend);
            }
        }
        for chain in &table.chains {
            for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
                if let Statement::Verdict(verdict) = statement
                    && let Some(next) = verdict.chain().filter(|next| !NAMING.is_endpoint(next))
                {
                    routes.add_chain(next, &chain.name);
                }
            }
        }
        Self {
            shown,
            chains: shown.iter().map(|chain| (&*chain.name, chain)).collect(),
            missing: missing.iter().map(|chain| &*chain.name).collect(),
            sets: table.sets.iter().map(|set| (&*set.name, set)).collect(),
            routes,
            family: table.family,
        }
    }

    /// Returns the affinity lookup of a rule.
    fn recall(&self, rule: &'a Rule) -> Option<Recall<'a>> {
        let (side, list) = recalled(rule)?;
        let [Statement::Verdict(Verdict::Goto(endpoint) | Verdict::Jump(endpoint))] = rule.statements.as_slice() else {
            return None;
        };
        let dynamic = self.sets.get(list).and_then(|set| set.dynamic);
        let seconds = dynamic.and_then(|dynamic| dynamic.timeout);
        let size = dynamic.map(|dynamic| dynamic.size).filter(|size| *size > 0);
        let key = Key { destination: side == Side::Destination, mask: None };
        NAMING.is_endpoint(endpoint).then_some(Recall {
            list,
            key,
            seconds,
            size,
            is_plain: rule.conditions.len() == 1,
        })
    }

    fn leads(&self, rule: &'a Rule, number: usize) -> Vec<Lead<'a>> {
        let recall = self.recall(rule);
        let chains = rule.statements.iter().flat_map(Statement::chains).filter(|chain| NAMING.is_endpoint(chain));
        let addresses = rule.statements.iter().flat_map(destinations_of);
        let all = chains.map(|chain| To::Chain(chain)).chain(addresses.map(To::Address));
        all.map(|to| Lead { rule: number, to, recall: recall.clone(), named: None }).collect()
    }
}

impl<'a> Reading<'a> for Table<'a> {
    fn naming(&self) -> &'static Naming {
        &NAMING
    }

    fn groups(&self) -> Vec<&'a str> {
        self.shown.iter().map(|chain| &*chain.name).filter(|name| NAMING.service_port_part(name).is_some()).collect()
    }

    fn group(&self, chain: &str) -> Option<Group<'a>> {
        let chain = *self.chains.get(chain)?;
        let frontends = self.routes.frontends(&chain.name);
        let (service, protocol) = named(&chain.name);
        let leads: Vec<Lead<'a>> =
            chain.rules.iter().zip(1..).flat_map(|(rule, number)| self.leads(rule, number)).collect();
        let is_new = |number: &usize| leads.iter().any(|lead| lead.rule == *number && lead.recall.is_none());
        let copies = copies_of(chain, self.family).into_iter().filter(|copies| is_new(&copies.numbers[0]));
        Some(Group {
            chain: &chain.name,
            copies: copies.collect(),
            service,
            protocol: protocol.or_else(|| frontends.first().map(|frontend| frontend.protocol)),
            frontends,
            leads,
            gaps: chain
                .rules
                .iter()
                .zip(1..)
                .filter_map(|(rule, number)| Some((number, rule.statements.iter().find_map(gap)?)))
                .collect(),
            notes: chain
                .rules
                .iter()
                .zip(1..)
                .flat_map(|(rule, number)| notes(rule).into_iter().map(move |note| (number, note)))
                .collect(),
            // nft itself rejects them.
            without_protocol: Vec::new(),
        })
    }

    fn endpoint(&self, chain: &str) -> Option<Endpoint<'a>> {
        let chain = *self.chains.get(chain)?;
        let translates = |rule: &&Rule| rule.statements.iter().any(is_dnat);
        let first_translating = chain.rules.iter().position(|rule| translates(&rule));
        let masquerades = |rule: &&Rule| rule.statements.iter().any(marks);
        Some(Endpoint {
            chain: &chain.name,
            destination: chain.rules.iter().filter(translates).flat_map(|rule| &rule.statements).find_map(dnat),
            no_endpoint: chain.rules.iter().flat_map(|rule| &rule.statements).find_map(no_endpoint),
            protocols: chain.rules.iter().filter(translates).map(protocol).collect(),
            masqueraded: chain.rules.iter().filter(masquerades).find_map(masqueraded),
            notes: chain
                .rules
                .iter()
                .enumerate()
                .flat_map(|(at, rule)| {
                    let is_first = first_translating.is_none_or(|first| at <= first);
                    notes(rule).into_iter().map(move |note| Note { is_plain: note.is_plain && is_first, ..note })
                })
                .collect(),
            lacks_protocol: false,
        })
    }

    fn named_endpoint(&self, chain: &str) -> Option<SocketAddr> {
        endpoint_of_base(NAMING.endpoint_part(chain)?)
    }

    fn confirmed_endpoint(&self, chain: &str) -> Option<SocketAddr> {
        let base = NAMING.endpoint_part(chain)?;
        let (hash, hashed) = base.split_once('-')?;
        (nftables::name_hash(hashed) == hash).then(|| endpoint_of_base(base))?
    }

    /// The name of an endpoint's chain contains the service port and the endpoint.
    fn misnamed(&self, group: &Group<'a>, endpoints: &[(&Lead<'a>, Endpoint<'a>)]) -> Vec<Option<Mismatch>> {
        let misnamed = |endpoint: &Endpoint<'a>| {
            let (service, named) = named_endpoint(endpoint.chain)?;
            if named != written(endpoint.destination?) {
                return Some(Mismatch { named: named.to_owned(), by: "its name" });
            }
            let group = NAMING.service_port_part(group.chain)?.split_once('-')?.1;
            let is_other = service != group && !group.ends_with("...");
            is_other.then(|| Mismatch { named: format!("an endpoint of {service}"), by: "its name" })
        };
        endpoints.iter().map(|(_, endpoint)| misnamed(endpoint)).collect()
    }

    fn chance(&self, group: &Group<'a>, rule: usize, choice: u32) -> Option<Chance> {
        let rule = self.chains.get(group.chain)?.rules.get(rule - 1)?;
        if self.recall(rule).is_some() {
            return None;
        }
        let asks = rule.conditions.iter().any(|condition| condition.as_protocol().is_none());
        let drawn = || rule.statements.iter().find_map(|statement| drawn(statement, choice as usize));
        Some(if asks { Chance::Condition } else { drawn().unwrap_or(Chance::Always) })
    }

    fn missing(&self, chain: &str, _: usize) -> Option<&'a str> {
        self.missing.get(chain).copied()
    }
}

fn is_dnat(statement: &Statement) -> bool {
    matches!(statement, Statement::Dnat(_) | Statement::DnatAddress(_) | Statement::BalanceDnat(_))
}

/// Describes a DNAT destination that is not one address with one port.
fn no_endpoint(statement: &Statement) -> Option<String> {
    if let Statement::DnatAddress(address) = statement { Some(format!("{address} without a port")) } else { None }
}

fn dnat(statement: &Statement) -> Option<SocketAddr> {
    if let Statement::Dnat(address) = statement { Some(*address) } else { None }
}

/// Returns the service port and the endpoint in the name of a chain: `default/web/tcp/http` and `10.244.1.10/8080` of
/// `endpoint-FLXOMXXM-default/web/tcp/http__10.244.1.10/8080`. Returns nothing if the name was truncated.
fn named_endpoint(chain: &str) -> Option<(&str, &str)> {
    split_base(NAMING.endpoint_part(chain)?)
}

/// Returns the endpoint in the name of its chain after the prefix; nothing if the name was truncated.
pub(crate) fn endpoint_of_base(base: &str) -> Option<SocketAddr> {
    read(split_base(base)?.1)
}

fn split_base(base: &str) -> Option<(&str, &str)> {
    base.split_once('-')?.1.rsplit_once("__").filter(|_| !base.ends_with("..."))
}

/// Writes an endpoint as chain names do.
fn written(to: SocketAddr) -> String {
    format!("{}/{}", to.ip().to_string().replace(':', "."), to.port())
}

/// Reads an endpoint from a chain name.
fn read(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once('/')?;
    let address = address.parse().or_else(|_| address.replace('.', ":").parse()).ok()?;
    Some(SocketAddr::new(address, port.parse().ok()?))
}

/// Returns the service port and protocol in the name of a chain: `default/web:http` and TCP of `service-SUSTUHLJ-default/web/tcp/http`.
fn named(chain: &str) -> (Cow<'_, str>, Option<Protocol>) {
    let base = NAMING.service_port_part(chain);
    let protocol = base.and_then(|base| super::protocol_of(base).parse().ok());
    match (base, protocol) {
        (Some(base), Some(protocol)) => (Cow::Owned(name_of(base)), Some(protocol)),
        _ => (Cow::Borrowed(chain), None),
    }
}

/// Adds to a table the chains and sets that its rules name but it does not contain. They come last: the chains are unknown, and the sets
/// are empty.
pub(crate) fn completed(table: &nftables::Table) -> Cow<'_, nftables::Table> {
    let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
    let elements = table.sets.iter().flat_map(|set| &set.elements).filter_map(|element| element.verdict.as_ref());
    let named = rules()
        .flat_map(|rule| &rule.statements)
        .flat_map(Statement::chains)
        .chain(elements.filter_map(Verdict::chain));
    let mut known: HashSet<&str> = table.chains.iter().map(|chain| &*chain.name).collect();
    let chains: Vec<Chain> = named.filter(|name| known.insert(name)).map(stub).collect();
    let mut known: HashSet<&str> = table.sets.iter().map(|set| &*set.name).collect();
    let sets: Vec<&Name> = rules().flat_map(sets_of).filter(|name| known.insert(name)).collect();
    if chains.is_empty() && sets.is_empty() {
        return Cow::Borrowed(table);
    }
    let mut whole = table.clone();
    whole.chains.extend(chains);
    whole.sets.extend(sets.into_iter().map(|name| {
        let dynamic = Some(Dynamic { size: 0, timeout: None });
        let key = vec![Datatype::Address(table.family)];
        Set { name: name.clone(), kind: SetKind::Set, key, comment: None, dynamic, elements: Vec::new() }
    }));
    Cow::Owned(whole)
}

/// Returns a placeholder for a chain that the text does not contain. The effect of the marking chain is known.
fn stub(name: &Name) -> Chain {
    let mut chain = Chain::regular(name.clone());
    if **name != *super::rule::MASQUERADE {
        let statements = vec![Statement::Other("not shown".into())];
        chain.rules.push(Rule { statements, ..Rule::default() });
    }
    chain
}

/// Returns the sets of clients that a rule names.
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
