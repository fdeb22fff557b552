//! An nftables table in terms of services.

mod facts;

use self::facts::{affinity, hairpin, in_chain, in_endpoint};
use super::finding::{Fact, Subject};
use super::model::{Chance, Line, Model, Part, Place};
use crate::chains::Kind;
use crate::chains::nftables::{
    Known, Names, ServiceKey, Target, balance, effect, frontend_of_key, is_base, kind_of, name_of, protocol_of,
    source_ranges, text,
};
use crate::cluster::Family;
use crate::coverage::nft_table;
use crate::nftables::{
    Chain, Datatype, Element, Key, Rule, Ruleset, Set, SetKind, SourceLines, Table, print_key, print_verdict,
};

/// Rules, and their lines if known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) rules: &'a Ruleset,
    pub(super) lines: Option<&'a SourceLines>,
}

/// A table and its lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableOf<'a> {
    position: usize,
    pub(super) table: &'a Table,
    lines: Option<&'a SourceLines>,
}

impl<'a> Source<'a> {
    /// Returns the table of a family.
    pub(super) fn table(self, family: Family) -> Option<TableOf<'a>> {
        let position = self.rules.tables.iter().position(|table| table.family == family)?;
        Some(TableOf { position, table: &self.rules.tables[position], lines: self.lines })
    }
}

/// Reads a table. Names that it does not contain are taken from the table that it is compared with, the second item.
pub(super) fn read(of: TableOf<'_>, names: [&Names<'_>; 2]) -> Model<ServiceKey> {
    let mut reader = Reader { of, names: Known(names), model: Model::default() };
    for (position, set) in of.table.sets.iter().enumerate() {
        reader.set(position, set);
    }
    for (position, chain) in of.table.chains.iter().enumerate() {
        reader.chain(position, chain);
    }
    let names: Vec<(ServiceKey, String)> =
        reader.model.services.keys().map(|service| (service.clone(), name_of(service))).collect();
    reader.model.names.extend(names);
    reader.model
}

struct Reader<'a> {
    of: TableOf<'a>,
    names: Known<'a>,
    model: Model<ServiceKey>,
}

impl<'a> Reader<'a> {
    fn set(&mut self, position: usize, set: &Set) {
        let lines = self.of.lines;
        if let Some(endpoint) = set.name.strip_prefix("affinity-").filter(|base| is_base(base)) {
            // Its elements are clients, which change at any time.
            let chain = format!("endpoint-{endpoint}");
            if let Some(service) = self.names.owner_of_endpoint(&chain) {
                let line = lines.and_then(|lines| lines.set(self.of.position, position));
                let fact = Fact::Clients(self.names.endpoint(&chain));
                return self.model.record(service, fact, kind_of_set(set), line);
            }
        }
        let mut part = Part::default();
        part.kinds.insert(Fact::Kind, format!("`{}`", kind_of_set(set)));
        for (number, element) in set.elements.iter().enumerate().filter(|_| set.dynamic.is_none()) {
            let line = lines.and_then(|lines| lines.element(self.of.position, position, number));
            if !self.element(set, element, line) {
                part.rules.push((Fact::Element(text_of_element(element)), line));
            }
        }
        let subject =
            Subject::Set { table: nft_table(self.of.table.family), kind: set.kind, name: set.name.to_string() };
        self.model.parts.insert(subject, part);
    }

    /// Records what an element states about services, if anything.
    fn element(&mut self, set: &Set, element: &Element, line: Line) -> bool {
        let (services, fact) = match (&*set.name, element.key.as_slice()) {
            ("cluster-ips", [Key::Address(ip)]) => (self.names.at_address(*ip), Fact::ClusterIp(*ip)),
            ("hairpin-connections", key) => {
                let Some((endpoint, protocol)) = hairpin(key) else { return false };
                let mut services = self.names.with_endpoint(&endpoint);
                services.retain(|service| protocol_of(service) == protocol.as_str());
                (services, Fact::Hairpin(endpoint))
            }
            (name, key) => {
                let Some(address) = frontend_of_key(key) else { return false };
                let fact = match name {
                    "service-ips" | "service-nodeports" => Fact::Entry(address),
                    "no-endpoint-services" | "no-endpoint-nodeports" => Fact::RejectResponse(Some(address)),
                    "firewall-ips" => Fact::Firewall(address),
                    _ => return false,
                };
                (self.names.service_of(element).into_iter().collect(), fact)
            }
        };
        let text = element.verdict.as_ref().map(print_verdict).unwrap_or_default();
        for service in &services {
            self.model.record(service.clone(), fact.clone(), text.clone(), line);
        }
        !services.is_empty()
    }

    fn chain(&mut self, position: usize, chain: &Chain) {
        match kind_of(&chain.name) {
            Some((Kind::Endpoint, _)) => match self.names.owner_of_endpoint(&chain.name) {
                Some(service) => self.endpoint(&service, position, chain),
                None => self.other(position, chain),
            },
            Some((kind, service)) => self.read_service_chain(kind, service, position, chain),
            None => self.other(position, chain),
        }
    }

    /// Returns the rules of a chain, each with its text and line.
    fn rules<'c>(
        &self,
        position: usize,
        chain: &'c Chain,
    ) -> impl Iterator<Item = (&'c Rule, String, Line)> + use<'a, 'c> {
        let of = self.of;
        chain.rules.iter().enumerate().map(move |(number, rule)| {
            let line = of.lines.and_then(|lines| lines.rule(of.position, position, number));
            (rule, text(rule, of.table.family), line)
        })
    }

    /// Reads a chain of no service.
    fn other(&mut self, position: usize, chain: &Chain) {
        let mut part = Part::default();
        part.kinds.insert(Fact::Kind, kind_of_chain(chain));
        for (rule, text, line) in self.rules(position, chain) {
            let fact = match effect(chain, rule) {
                Some(effect) => Fact::Jump(text, effect),
                None => Fact::Rule(text),
            };
            part.order.push(Place::Fact(fact.clone()), line);
            part.rules.push((fact, line));
        }
        let subject = Subject::Chain { table: nft_table(self.of.table.family), name: chain.name.to_string() };
        self.model.parts.insert(subject, part);
    }

    /// `service-`, `local-`, `external-` or `firewall-`.
    fn read_service_chain(&mut self, kind: Kind, service: &str, position: usize, chain: &Chain) {
        let line = self.of.lines.and_then(|lines| lines.chain(self.of.position, position));
        let base = chain.base.map(|_| kind_of_chain(chain)).unwrap_or_default();
        self.model.record(service.to_owned(), Fact::Chain(chain.name.to_string()), base, line);
        for (rule, text, line) in self.rules(position, chain) {
            match (kind, balance(rule, protocol_of(service)), affinity(rule)) {
                (Kind::Group(policy), Some(balance), _) => {
                    let model = self.model.services.entry(service.to_owned()).or_default();
                    let group = model.groups.entry(policy).or_default();
                    let among = balance.targets.len() as f64;
                    for (target, draws) in balance.targets {
                        let endpoint = match target {
                            Target::Chain(chain) => self.names.endpoint(chain),
                            Target::Endpoint(endpoint) => endpoint,
                        };
                        let drawn = (f64::from(draws) / 2_f64.powi(32), Chance::Drawn(draws));
                        let (share, chance) = if balance.is_even { (1.0 / among, Chance::Even) } else { drawn };
                        group.lead(&endpoint, share, chance, line);
                    }
                    model.order.entry(chain.name.to_string()).or_default().push(Place::Balance, line);
                }
                (Kind::Group(policy), None, Some(endpoint)) => {
                    let fact = Fact::Affinity(policy, self.names.endpoint(endpoint));
                    let model = self.model.services.entry(service.to_owned()).or_default();
                    model.record(fact, text, line);
                    model.order.entry(chain.name.to_string()).or_default().push(Place::Affinity, line);
                }
                _ => {
                    let fact = in_chain(kind, rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    if fact == Fact::RejectResponse(None) {
                        for range in source_ranges(rule) {
                            self.model.record(service.to_owned(), Fact::SourceRange(range), String::new(), line);
                        }
                        // The source ranges are recorded with its text.
                        self.record(service, chain, fact, (rejection_without_ranges(rule, &text), line));
                    } else {
                        self.record(service, chain, fact, (text, line));
                    }
                }
            }
        }
    }

    /// `endpoint-`.
    fn endpoint(&mut self, service: &str, position: usize, chain: &Chain) {
        let endpoint = self.names.endpoint(&chain.name);
        for (rule, text, line) in self.rules(position, chain) {
            let fact = in_endpoint(rule, &endpoint).unwrap_or_else(|| Fact::Rule(text.clone()));
            self.record(service, chain, fact, (text, line));
        }
    }

    fn record(&mut self, service: &str, chain: &Chain, fact: Fact, (text, line): (String, Line)) {
        let model = self.model.services.entry(service.to_owned()).or_default();
        model.order.entry(chain.name.to_string()).or_default().push(Place::Fact(fact.clone()), line);
        model.record(fact, text, line);
    }
}

/// Returns the text of a firewall rule without its ranges, as they are recorded separately.
fn rejection_without_ranges(rule: &Rule, text: &str) -> String {
    if source_ranges(rule).is_empty() { text.to_owned() } else { "drop".to_owned() }
}

/// Describes a set: the type of its keys, and its other properties.
fn kind_of_set(set: &Set) -> String {
    let types: Vec<&str> = set.key.iter().copied().map(Datatype::as_str).collect();
    let verdict = if set.kind == SetKind::VerdictMap { " : verdict" } else { "" };
    let dynamic = set.dynamic.map(|dynamic| {
        let timeout = dynamic.timeout.map(|timeout| format!(" timeout {timeout}s")).unwrap_or_default();
        format!(" size {}{timeout}", dynamic.size)
    });
    format!("type {}{verdict}{}", types.join(" . "), dynamic.unwrap_or_default())
}

/// Describes how packets enter a chain.
fn kind_of_chain(chain: &Chain) -> String {
    let Some(base) = chain.base else { return "a chain that is only reached by jumps".to_owned() };
    let kind = if base.nat { "nat" } else { "filter" };
    let policy = if base.drops { "drop" } else { "accept" };
    format!("`type {kind} hook {} priority {}; policy {policy}`", base.hook.lowercase(), base.priority)
}

fn text_of_element(element: &Element) -> String {
    let verdict = element.verdict.as_ref().map(|verdict| format!(" : {}", print_verdict(verdict)));
    print_key(&element.key) + &verdict.unwrap_or_default()
}
