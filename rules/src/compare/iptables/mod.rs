//! iptables rules in terms of services.

mod facts;

use std::borrow::Cow;
use std::collections::BTreeMap;

use self::facts::{chance, in_chain, listed, without_protocol};
use super::finding::{Fact, Subject};
use super::model::{Chance, Line, Part, Place, Service, ServiceRules};
use super::others::Own;
use crate::chains::Kind;
use crate::chains::iptables::{
    Known, NODE_PORTS, Names, effect, kind_of, marks_for_masquerade, recall, text, transport,
};
use crate::cluster::{Family, Protocol};
use crate::iptables::{self, ChainHash, Policy, Rule, RuleSet, SourceLines, TableName, Target};

/// Chains with rules of many services, in any order of services.
pub(super) const LISTS: [&str; 4] =
    ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// Rules, and their lines if known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) lines: Option<&'a SourceLines>,
}

/// Reads all tables of a rule set, or only kube-proxy's rules. Names that the rules do not contain are taken from the rules that they are
/// compared with, the second item.
pub(super) fn read<'a>(
    source: Source<'a>,
    names: [&'a Names<'a>; 2],
    own: Option<&'a Own<'a>>,
    tables: &[TableName],
) -> Reading<'a> {
    let known = Known(names);
    let mut chains: Vec<ChainOf<'_>> = Vec::new();
    for (position, table) in source.rules.tables.iter().enumerate().filter(|(_, table)| tables.contains(&table.name)) {
        let of_table = |(number, chain)| ChainOf { position: (position, number), table: table.name, chain };
        chains.extend(table.chains.iter().enumerate().map(of_table));
    }
    chains.sort_by_key(|one| (one.table, &one.chain.name));
    let (names, are_names_same) = (known.services(), known.are_same());
    let (services, parts) = (BTreeMap::new(), BTreeMap::new());
    let omits_random_fully = false;
    let mut reading = Reading { source, known, are_names_same, own, names, services, parts, omits_random_fully };
    chains.into_iter().for_each(|chain| reading.note(chain));
    reading
}

/// A chain and its position.
#[derive(Debug, Clone, Copy)]
struct ChainOf<'a> {
    position: (usize, usize),
    table: TableName,
    chain: &'a iptables::Chain,
}

impl ChainOf<'_> {
    /// Returns whether another rule set has the same chain: everything but its counters.
    fn is_same(&self, other: &Self) -> bool {
        let of = |of: &Self| (of.table, of.chain.policy);
        of(self) == of(other) && self.chain.name == other.chain.name && self.chain.rules == other.chain.rules
    }
}

/// A source of facts about a service.
#[derive(Debug, Clone, Copy)]
enum Piece<'a> {
    /// A chain of the service.
    Chain(Kind, ChainOf<'a>),
    /// A rule of a list, by position.
    Listed(ChainOf<'a>, usize),
}

impl Piece<'_> {
    /// Returns whether another rule set has the same rules here.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Chain(_, one), Self::Chain(_, other)) => one.is_same(other),
            (Self::Listed(one, number), Self::Listed(other, other_number)) => {
                one.table == other.table
                    && one.chain.name == other.chain.name
                    && one.chain.rules[*number] == other.chain.rules[*other_number]
            }
            _ => false,
        }
    }
}

/// An index of a rule set: rules are printed only for the service or chain that is being compared, to keep memory use low.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    source: Source<'a>,
    known: Known<'a>,
    /// Whether the rule set has the same names of services and endpoints as the one that it is compared with.
    are_names_same: bool,
    own: Option<&'a Own<'a>>,
    names: BTreeMap<ChainHash, String>,
    services: BTreeMap<ChainHash, Vec<Piece<'a>>>,
    parts: BTreeMap<Subject, ChainOf<'a>>,
    /// Whether `--random-fully` is left out of its rules.
    omits_random_fully: bool,
}

impl ServiceRules<ChainHash> for Reading<'_> {
    fn names(&self) -> &BTreeMap<ChainHash, String> {
        &self.names
    }

    fn services(&self) -> impl Iterator<Item = &ChainHash> {
        self.services.keys()
    }

    fn service(&self, key: &ChainHash) -> Option<Cow<'_, Service>> {
        let mut service = Service::default();
        let pieces = self.services.get(key)?;
        let protocol = protocol(pieces);
        for piece in pieces {
            match *piece {
                Piece::Chain(Kind::Endpoint, of) => self.endpoint(&mut service, of, protocol),
                Piece::Chain(kind, of) => self.read_service_chain(&mut service, (kind, protocol), of),
                Piece::Listed(of, number) => self.listed(&mut service, of, number),
            }
        }
        Some(Cow::Owned(service))
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.parts.keys()
    }

    fn part(&self, subject: &Subject) -> Option<Cow<'_, Part>> {
        self.parts.get(subject).map(|of| Cow::Owned(self.unowned_rules(*of)))
    }

    fn has_same_service(&self, other: &Self, key: &ChainHash) -> bool {
        let are_same = |(one, other): (&Vec<Piece<'_>>, &Vec<Piece<'_>>)| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
        };
        self.has_same_names(other) && self.services.get(key).zip(other.services.get(key)).is_some_and(are_same)
    }

    fn has_same_part(&self, other: &Self, subject: &Subject) -> bool {
        let are_same = |(one, other): (&ChainOf<'_>, &ChainOf<'_>)| one.is_same(other);
        self.has_same_names(other) && self.parts.get(subject).zip(other.parts.get(subject)).is_some_and(are_same)
    }
}

impl<'a> Reading<'a> {
    /// Leaves `--random-fully` out of its rules if no rule of the node has it: kube-proxy does not write it where iptables is older than 1.6.2
    /// (`HasRandomFully`).
    pub(super) fn adapted_to(self, node: &RuleSet) -> Self {
        let rules =
            |table: &'_ iptables::Table| table.chains.iter().flat_map(|chain| &chain.rules).any(is_random_fully);
        Self { omits_random_fully: !node.tables.iter().any(rules), ..self }
    }

    fn family(&self) -> Family {
        self.source.rules.family
    }

    /// Returns whether services and endpoints have the same names in both, so that equal rules state equal facts.
    fn has_same_names(&self, other: &Self) -> bool {
        self.are_names_same && self.family() == other.family()
    }

    /// Records the service that a chain belongs to.
    fn note(&mut self, of: ChainOf<'a>) {
        match kind_of(&of.chain.name) {
            Some((Kind::Endpoint, _)) => match self.known.owner_of_endpoint(of.chain) {
                Some(hash) => self.services.entry(hash).or_default().push(Piece::Chain(Kind::Endpoint, of)),
                None => self.note_list(of),
            },
            Some((kind, hash)) => self.services.entry(hash).or_default().push(Piece::Chain(kind, of)),
            None => self.note_list(of),
        }
    }

    /// Records a chain of no service, and the rules of services in it.
    fn note_list(&mut self, of: ChainOf<'a>) {
        let ChainOf { table, chain, .. } = of;
        let mut is_empty = true;
        for number in self.read_of(of) {
            is_empty = false;
            let Some((hash, name)) = self.owner(of, &chain.rules[number]) else { continue };
            if let Some(name) = name.filter(|_| !self.names.contains_key(&hash)) {
                self.names.insert(hash, name.to_owned());
            }
            self.services.entry(hash).or_default().push(Piece::Listed(of, number));
        }
        let builtin = table.builtin_chains().contains(&&*chain.name);
        if self.drops(of) || !is_empty || self.is_own(of) && !builtin {
            let subject = Subject::Chain { table: table.as_str(), name: chain.name.to_string() };
            self.parts.insert(subject, of);
        }
    }

    /// Returns the positions of a chain's rules in scope.
    fn read_of(&self, of: ChainOf<'a>) -> impl Iterator<Item = usize> + use<'a> {
        let own = self.own;
        let is_read = move |(number, rule): &(usize, &'a Rule)| {
            !of.chain.only_counts(*number) && own.is_none_or(|own| own.reads(of.table, of.chain, rule))
        };
        of.chain.rules.iter().enumerate().filter(is_read).map(|(number, _)| number)
    }

    /// Returns a rule of a chain with its text and line.
    fn rule(&self, of: ChainOf<'a>, number: usize) -> (&'a Rule, String, Line) {
        let (table, chain) = of.position;
        let line = self.source.lines.and_then(|lines| lines.line(table, chain, number));
        let rule = &of.chain.rules[number];
        let shown = match &rule.target {
            Some(Target::Masquerade { ports, random, random_fully: true }) if self.omits_random_fully => {
                let target = Target::Masquerade { ports: *ports, random: *random, random_fully: false };
                &Rule { target: Some(target), ..rule.clone() }
            }
            _ => rule,
        };
        (rule, text(self.family(), of.chain, shown), line)
    }

    /// Returns the rules of a chain in scope, each with its text and line.
    fn rules(&self, of: ChainOf<'a>) -> impl Iterator<Item = (&'a Rule, String, Line)> {
        self.read_of(of).map(move |number| self.rule(of, number))
    }

    /// Returns the rules of a service's own chain without the protocol of the service.
    fn own_rules(
        &self,
        of: ChainOf<'a>,
        protocol: Option<Protocol>,
    ) -> impl Iterator<Item = (Cow<'a, Rule>, String, Line)> {
        self.rules(of).map(move |(rule, words, line)| match without_protocol(rule, protocol) {
            Cow::Owned(rule) => {
                let words = text(self.family(), of.chain, &rule);
                (Cow::Owned(rule), words, line)
            }
            rule @ Cow::Borrowed(_) => (rule, words, line),
        })
    }

    /// Returns the service of a rule in a list, and its name if the rule contains it.
    fn owner<'r>(&self, of: ChainOf<'a>, rule: &'r Rule) -> Option<(ChainHash, Option<&'r str>)> {
        LISTS.contains(&&*of.chain.name).then(|| self.known.owner(rule)).flatten()
    }

    fn is_own(&self, of: ChainOf<'a>) -> bool {
        self.own.is_none_or(|own| own.has(of.table, &of.chain.name))
    }

    /// Returns whether a chain in scope drops packets at its end.
    fn drops(&self, of: ChainOf<'a>) -> bool {
        self.is_own(of) && of.chain.policy == Some(Policy::Drop)
    }

    /// Returns a chain without the rules of services.
    fn unowned_rules(&self, of: ChainOf<'a>) -> Part {
        let mut part = Part::default();
        for (rule, text, line) in self.rules(of) {
            if self.owner(of, rule).is_some() {
                part.order.push(Place::Services, line);
                continue;
            }
            let node_ports = rule.next_chain().is_some_and(|next| **next == *NODE_PORTS);
            let effect = rule.next_chain().and_then(|next| effect(of.table, &of.chain.name, next));
            let fact = match effect {
                Some(effect) => Fact::Jump(text, effect),
                None => Fact::Rule(text),
            };
            let place = if node_ports { Place::NodePorts } else { Place::Fact(fact.clone()) };
            part.order.push(place, line);
            part.rules.push((fact, line));
        }
        part.kinds.extend(self.drops(of).then(|| (Fact::Policy, "DROP".to_owned())));
        part
    }

    /// Reads a rule of a list.
    fn listed(&self, service: &mut Service, of: ChainOf<'a>, number: usize) {
        let (rule, text, line) = self.rule(of, number);
        let fact = listed(&of.chain.name, rule).unwrap_or_else(|| Fact::Rule(text.clone()));
        record(service, of.chain, fact, (text, line));
    }

    /// `KUBE-SVC`, `KUBE-SVL`, `KUBE-XLB`, `KUBE-EXT` or `KUBE-FW`.
    fn read_service_chain(&self, service: &mut Service, (kind, protocol): (Kind, Option<Protocol>), of: ChainOf<'a>) {
        service.facts.entry(Fact::Chain(of.chain.name.to_string())).or_default();
        let mut rest = 1.0;
        for (rule, text, line) in self.own_rules(of, protocol) {
            let rule = &*rule;
            let endpoint = rule.next_chain().filter(|next| matches!(kind_of(next), Some((Kind::Endpoint, _))));
            let endpoint = endpoint.map(|next| self.known.endpoint(next));
            match (kind, endpoint, chance(rule)) {
                (Kind::Group(policy), Some(endpoint), Some(chance)) => {
                    let group = service.groups.entry(policy).or_default();
                    group.lead(&endpoint, rest * chance.share(), Chance::Threshold(chance.threshold()), line);
                    rest *= 1.0 - chance.share();
                    service.order.entry(of.chain.name.to_string()).or_default().push(Place::Balance, line);
                }
                (Kind::Group(policy), Some(endpoint), None) if recall(rule, self.family()).is_some() => {
                    service.record(Fact::Affinity(policy, endpoint), text, line);
                    service.order.entry(of.chain.name.to_string()).or_default().push(Place::Affinity, line);
                }
                _ => {
                    let fact = in_chain(kind, rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    record(service, of.chain, fact, (text, line));
                }
            }
        }
    }

    /// `KUBE-SEP`.
    fn endpoint(&self, service: &mut Service, of: ChainOf<'a>, protocol: Option<Protocol>) {
        let endpoint = self.known.endpoint(&of.chain.name);
        for (rule, text, line) in self.own_rules(of, protocol) {
            let fact = match &rule.target {
                Some(Target::Dnat(_)) => Fact::Translation(endpoint.clone()),
                _ if marks_for_masquerade(&rule) => Fact::Hairpin(endpoint.clone()),
                _ => Fact::Rule(text.clone()),
            };
            record(service, of.chain, fact, (text, line));
        }
    }
}

/// Returns the protocol of the rules that lead to a service, if they agree.
fn protocol(pieces: &[Piece<'_>]) -> Option<Protocol> {
    let mut leading = pieces.iter().filter_map(|piece| match piece {
        Piece::Listed(of, number) => Some(transport(&of.chain.rules[*number])),
        Piece::Chain(..) => None,
    });
    let first = leading.next()?;
    first.filter(|_| leading.all(|other| other == first))
}

fn is_random_fully(rule: &Rule) -> bool {
    matches!(rule.target, Some(Target::Masquerade { random_fully: true, .. }))
}

fn record(service: &mut Service, chain: &iptables::Chain, fact: Fact, (text, line): (String, Line)) {
    service.order.entry(chain.name.to_string()).or_default().push(Place::Fact(fact.clone()), line);
    service.record(fact, text, line);
}
