//! The chains of the `nat` table that balance connections.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;

use super::rule::{chance, destination, frontend, host, lacks_protocol, no_endpoint, notes, recall};
use super::structure::copies_of;
use super::{NAMING, marks_for_masquerade, service_in, transport};
use crate::chains::{
    Chance, Endpoint, Frontend, Group, Lead, Masqueraded, Mismatch, Naming, Note, Reading, Routes, To,
};
use crate::cluster::{Family, Protocol};
use crate::iptables::{self, Chain, ChainHash, Match, Rule, Statistic, Target};

/// The `nat` table with its chains by name, and the rules that lead to them.
pub(crate) struct Table<'a> {
    table: &'a iptables::Table,
    chains: HashMap<&'a str, &'a Chain>,
    routes: Routes<'a>,
    family: Family,
}

impl<'a> Table<'a> {
    pub(crate) fn new(table: &'a iptables::Table, family: Family) -> Self {
        let chains = table.chains.iter().map(|chain| (&*chain.name, chain)).collect();
        let mut routes = Routes::default();
        for chain in &table.chains {
            for rule in &chain.rules {
                let next = rule.next_chain().filter(|next| !NAMING.is_endpoint(next));
                match next.map(|next| (next, frontend(rule))) {
                    Some((next, Some(frontend))) => routes.add_frontend(next, frontend),
                    Some((next, None)) => routes.add_chain(next, &chain.name),
                    None => {}
                }
            }
        }
        Self { table, chains, routes, family }
    }

    /// Returns the frontends of a chain: those of the rules that lead there, otherwise of its own DNAT rules.
    fn frontends(&self, chain: &'a Chain) -> Vec<Frontend> {
        let mut frontends = self.routes.frontends(&chain.name);
        if frontends.is_empty() {
            for frontend in chain.rules.iter().filter(|rule| destination(rule).is_some()).filter_map(frontend) {
                if !frontends.contains(&frontend) {
                    frontends.push(frontend);
                }
            }
        }
        frontends
    }

    fn lead(&self, rule: &'a Rule, number: usize) -> Option<Lead<'a>> {
        let chain = || rule.next_chain().filter(|next| NAMING.is_endpoint(next)).map(|next| To::Chain(next));
        let to = destination(rule).map(To::Address).or_else(chain)?;
        Some(Lead { rule: number, to, recall: recall(rule, self.family), named: rule.named_endpoint() })
    }
}

impl<'a> Reading<'a> for Table<'a> {
    fn naming(&self) -> &'static Naming {
        &NAMING
    }

    fn groups(&self) -> Vec<&'a str> {
        let is_group = |chain: &&Chain| NAMING.service_port_part(&chain.name).is_some() || translates_by_chance(chain);
        self.table.chains.iter().filter(is_group).map(|chain| &*chain.name).collect()
    }

    fn group(&self, chain: &str) -> Option<Group<'a>> {
        let chain = *self.chains.get(chain)?;
        let frontends = self.frontends(chain);
        let numbered = || chain.rules.iter().zip(1..);
        let leads: Vec<Lead<'a>> = numbered().filter_map(|(rule, number)| self.lead(rule, number)).collect();
        let own = leads.iter().filter_map(|lead| self.chains.get(lead.chain()?));
        let rules: Vec<&'a Rule> = chain.rules.iter().chain(own.flat_map(|own| &own.rules)).collect();
        let service = rules.iter().find_map(|rule| service_in(rule)).unwrap_or(&chain.name);
        let is_new = |number: &usize| leads.iter().any(|lead| lead.rule == *number && lead.recall.is_none());
        let copies = copies_of(chain, self.family).into_iter().filter(|copies| is_new(&copies.numbers[0]));
        Some(Group {
            chain: &chain.name,
            copies: copies.collect(),
            service: Cow::Borrowed(service),
            protocol: protocol(&chain.name, service, &frontends, chain, &rules),
            frontends,
            leads,
            gaps: Vec::new(),
            notes: numbered()
                .flat_map(|(rule, number)| notes(rule, self.family).into_iter().map(move |note| (number, note)))
                .collect(),
            without_protocol: numbered().filter(|(rule, _)| lacks_protocol(rule)).map(|(_, number)| number).collect(),
        })
    }

    fn endpoint(&self, chain: &str) -> Option<Endpoint<'a>> {
        let chain = *self.chains.get(chain)?;
        let rules = || chain.rules.iter();
        let translates = |rule: &Rule| matches!(rule.target, Some(Target::Dnat(_)));
        let translating = rules().filter(|rule| translates(rule));
        let first_translating = rules().position(translates);
        let masquerading = rules().filter(|rule| marks_for_masquerade(rule));
        let source = |rule: &Rule| {
            let source = rule.source.as_ref()?;
            Some(Masqueraded::of(source.negated, host(&source.value)?))
        };
        Some(Endpoint {
            chain: &chain.name,
            destination: rules().find_map(destination),
            no_endpoint: rules().find_map(no_endpoint),
            protocols: translating.map(transport).collect(),
            masqueraded: masquerading.into_iter().find_map(source),
            notes: rules()
                .enumerate()
                .flat_map(|(at, rule)| {
                    let is_first = first_translating.is_none_or(|first| at <= first);
                    notes(rule, self.family)
                        .into_iter()
                        .map(move |note| Note { is_plain: note.is_plain && is_first, ..note })
                })
                .collect(),
            lacks_protocol: rules().any(lacks_protocol),
        })
    }

    /// From 1.24 on, the comment of a rule names its endpoint; the name of an endpoint's chain is a hash of the service port and the
    /// endpoint.
    fn misnamed(&self, group: &Group<'a>, endpoints: &[(&Lead<'a>, Endpoint<'a>)]) -> Vec<Option<Mismatch>> {
        let verified = verified(group.chain, &group.service);
        let mut by_hash: Option<HashMap<ChainHash, SocketAddr>> = None;
        let mut misnamed = |lead: &Lead<'a>, endpoint: &Endpoint<'a>| {
            let to = endpoint.destination?;
            if let Some(named) = lead.named.filter(|named| *named != to) {
                return Some(Mismatch { named: named.to_string(), by: "the comment of the rule that leads there" });
            }
            let (service, protocol) = verified.as_ref()?;
            let hash = ChainHash::parse(NAMING.endpoint_part(endpoint.chain)?)?;
            let of = |to: SocketAddr| ChainHash::for_endpoint(service, *protocol, &to.to_string());
            let all = || endpoints.iter().filter_map(|(_, own)| own.destination).map(|to| (of(to), to)).collect();
            if of(to) == hash {
                return None;
            }
            let named = by_hash.get_or_insert_with(all).get(&hash);
            let named = named.map_or_else(|| "another endpoint".to_owned(), ToString::to_string);
            Some(Mismatch { named, by: "the hash in its name" })
        };
        endpoints.iter().map(|(lead, endpoint)| misnamed(lead, endpoint)).collect()
    }

    fn chance(&self, group: &Group<'a>, rule: usize, _: u32) -> Option<Chance> {
        let written = self.chains.get(group.chain)?.rules.get(rule - 1)?;
        let leads_back = group.leads.binary_search_by_key(&rule, |lead| lead.rule);
        let leads_back = leads_back.is_ok_and(|at| group.leads[at].recall.is_some());
        (!leads_back).then(|| chance(written, &group.frontends))
    }

    fn missing(&self, chain: &str, rule: usize) -> Option<&'a str> {
        let next = self.chains.get(chain)?.rules.get(rule - 1)?.next_chain()?;
        (!self.chains.contains_key(&**next)).then_some(&**next)
    }
}

/// Returns whether a rule of a chain translates at random, as in cascades written by hand. A chain with the rules of several addresses, as other
/// programs write, balances none of them by itself.
fn translates_by_chance(chain: &Chain) -> bool {
    let by_chance = |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(Statistic::Random(_))));
    let mut translating = chain.rules.iter().filter(|rule| destination(rule).is_some());
    if !translating.clone().any(by_chance) {
        return false;
    }
    let address = |rule: &Rule| frontend(rule).map(|frontend| frontend.address);
    let first = translating.find_map(address);
    translating.filter_map(address).all(|other| Some(other) == first)
}

/// Returns the service port and protocol whose hash is in the name of a group's chain. Up to 1.19 the hashed name of an unnamed port ends
/// in a colon.
fn verified(chain: &str, service: &str) -> Option<(String, Protocol)> {
    let hash = NAMING.service_port_part(chain).and_then(ChainHash::parse)?;
    let names = [service.to_owned(), format!("{service}:")];
    names.into_iter().find_map(|name| {
        let is = |protocol: &Protocol| ChainHash::for_service_port(&name, *protocol) == hash;
        let protocol = Protocol::ALL.into_iter().find(is)?;
        Some((name, protocol))
    })
}

/// Returns the protocol of a service: that in the hash of its chain's name, that of its frontends, otherwise that of most of its DNAT
/// rules.
fn protocol(chain: &str, service: &str, frontends: &[Frontend], group: &Chain, rules: &[&Rule]) -> Option<Protocol> {
    let by_name = || verified(chain, service).map(|(_, protocol)| protocol);
    let most = || {
        let mut counts: Vec<(Protocol, usize)> = Vec::new();
        let translating = rules.iter().filter(|rule| matches!(rule.target, Some(Target::Dnat(_))));
        for protocol in translating.filter_map(|rule| transport(rule)) {
            match counts.iter_mut().find(|(known, _)| *known == protocol) {
                Some((_, count)) => *count += 1,
                None => counts.push((protocol, 1)),
            }
        }
        // Of equally frequent ones, the first.
        let usual = counts.iter().rev().max_by_key(|(_, count)| *count).map(|(protocol, _)| *protocol);
        usual.or_else(|| group.rules.iter().find_map(transport))
    };
    by_name().or_else(|| frontends.first().map(|frontend| frontend.protocol)).or_else(most)
}
