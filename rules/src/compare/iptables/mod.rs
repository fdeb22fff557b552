//! Rules of iptables in terms of services.

mod chains;
mod facts;
mod names;

pub(crate) use self::chains::kind_of;
pub(crate) use self::facts::{MASQUERADE, address, host, transport};
use self::facts::{chance, checks_recent, in_chain, listed};
pub(crate) use self::names::{Known, Names, name_in};
use super::finding::{Fact, Subject};
use super::kind::Kind;
use super::model::{Chance, Line, Model, Part, Place};
use super::others::Own;
use crate::cluster::Family;
use crate::iptables::{self, ChainHash, Policy, Rule, RuleSet, SourceLines, TableName, Target, print_rule};

/// Chains in which rules of services stand, in whatever order of services.
const LISTS: [&str; 4] = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// The chain of all node ports.
pub(crate) const NODE_PORTS: &str = "KUBE-NODEPORTS";

/// Rules, and where they stood, if that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) rules: &'a RuleSet,
    pub(super) lines: Option<&'a SourceLines>,
}

/// Reads tables of a rule set, all of them or what is kube-proxy's. What the rules do not say of names themselves is
/// known from those that they are compared with, which come second.
pub(super) fn read(
    source: Source<'_>,
    names: [&Names<'_>; 2],
    own: Option<&Own<'_>>,
    tables: &[TableName],
) -> Model<ChainHash> {
    let names = Known(names);
    let model = Model { names: names.services(), ..Model::default() };
    let mut reader = Reader { source, names, own, model };
    let mut chains: Vec<ChainOf<'_>> = Vec::new();
    for (position, table) in source.rules.tables.iter().enumerate().filter(|(_, table)| tables.contains(&table.name)) {
        let of_table = |(number, chain)| ChainOf { position: (position, number), table: table.name, chain };
        chains.extend(table.chains.iter().enumerate().map(of_table));
    }
    chains.sort_by_key(|one| (one.table, &one.chain.name));
    chains.iter().for_each(|chain| reader.chain(*chain));
    reader.model
}

/// A chain with its place.
#[derive(Debug, Clone, Copy)]
struct ChainOf<'a> {
    position: (usize, usize),
    table: TableName,
    chain: &'a iptables::Chain,
}

struct Reader<'a> {
    source: Source<'a>,
    names: Known<'a>,
    own: Option<&'a Own<'a>>,
    model: Model<ChainHash>,
}

impl<'a> Reader<'a> {
    fn chain(&mut self, of: ChainOf<'a>) {
        match kind_of(&of.chain.name) {
            Some((Kind::Endpoint, _)) => match self.names.owner_of_endpoint(of.chain) {
                Some(hash) => self.endpoint(hash, of),
                None => self.other(of),
            },
            Some((kind, hash)) => self.of_service(kind, hash, of),
            None => self.other(of),
        }
    }

    /// The rules of a chain that are to be read, each with its text and line.
    fn rules(&self, of: ChainOf<'a>) -> impl Iterator<Item = (&'a Rule, String, Line)> + use<'a> {
        let (own, Source { rules, lines }) = (self.own, self.source);
        let (table, chain) = of.position;
        of.chain
            .rules
            .iter()
            .enumerate()
            .filter(move |(number, rule)| {
                !of.chain.only_counts(*number) && own.is_none_or(|own| own.reads(of.table, of.chain, rule))
            })
            .map(move |(number, rule)| {
                let line = lines.and_then(|lines| lines.line(table, chain, number));
                (rule, text(rules.family, of.chain, rule), line)
            })
    }

    /// A chain of no service, and rules of services in it.
    fn other(&mut self, of: ChainOf<'a>) {
        let ChainOf { table, chain, .. } = of;
        let lists = LISTS.contains(&&*chain.name);
        let mut part = Part::default();
        for (rule, text, line) in self.rules(of) {
            match lists.then(|| self.names.owner(rule)).flatten() {
                Some((hash, name)) => {
                    part.order.push(Place::Services, line);
                    if let Some(name) = name.filter(|_| !self.model.names.contains_key(&hash)) {
                        self.model.names.insert(hash, name.to_owned());
                    }
                    let fact = listed(rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    self.tell(hash, chain, fact, (text, line));
                }
                None => {
                    let node_ports = rule.next_chain().is_some_and(|next| **next == *NODE_PORTS);
                    let fact = Fact::Rule(text);
                    let place = if node_ports { Place::NodePorts } else { Place::Fact(fact.clone()) };
                    part.order.push(place, line);
                    part.rules.push((fact, line));
                }
            }
        }
        let own = self.own.is_none_or(|own| own.has(table, &chain.name));
        let drops = own && chain.policy == Some(Policy::Drop);
        part.kinds.extend(drops.then(|| (Fact::Policy, "DROP".to_owned())));
        let builtin = table.builtin_chains().contains(&&*chain.name);
        if drops || !part.order.places.is_empty() || own && !builtin {
            let subject = Subject::Chain { table: table.as_str(), name: chain.name.to_string() };
            self.model.parts.insert(subject, part);
        }
    }

    /// `KUBE-SVC`, `KUBE-SVL`, `KUBE-XLB`, `KUBE-EXT` or `KUBE-FW`.
    fn of_service(&mut self, kind: Kind, hash: ChainHash, of: ChainOf<'a>) {
        let service = self.model.services.entry(hash).or_default();
        service.facts.entry(Fact::Chain(of.chain.name.to_string())).or_default();
        let mut rest = 1.0;
        for (rule, text, line) in self.rules(of) {
            let endpoint = rule.next_chain().filter(|next| matches!(kind_of(next), Some((Kind::Endpoint, _))));
            let endpoint = endpoint.map(|next| self.names.endpoint(next));
            let service = self.model.services.entry(hash).or_default();
            match (kind, endpoint, chance(rule)) {
                (Kind::Group(policy), Some(endpoint), Some(chance)) => {
                    let group = service.groups.entry(policy).or_default();
                    group.lead(&endpoint, rest * chance.share(), Chance::Threshold(chance.threshold()), line);
                    rest *= 1.0 - chance.share();
                    service.order.entry(of.chain.name.to_string()).or_default().push(Place::Balance, line);
                }
                (Kind::Group(policy), Some(endpoint), None) if checks_recent(rule) => {
                    service.tell(Fact::Affinity(policy, endpoint), text, line);
                    service.order.entry(of.chain.name.to_string()).or_default().push(Place::Affinity, line);
                }
                _ => {
                    let fact = in_chain(kind, rule).unwrap_or_else(|| Fact::Rule(text.clone()));
                    self.tell(hash, of.chain, fact, (text, line));
                }
            }
        }
    }

    /// `KUBE-SEP`.
    fn endpoint(&mut self, hash: ChainHash, of: ChainOf<'a>) {
        let endpoint = self.names.endpoint(&of.chain.name);
        for (rule, text, line) in self.rules(of) {
            let fact = match &rule.target {
                Some(Target::Dnat(_)) => Fact::Translation(endpoint.clone()),
                Some(Target::Jump(next)) if **next == *MASQUERADE => Fact::Hairpin(endpoint.clone()),
                _ => Fact::Rule(text.clone()),
            };
            self.tell(hash, of.chain, fact, (text, line));
        }
    }

    fn tell(&mut self, hash: ChainHash, chain: &iptables::Chain, fact: Fact, (text, line): (String, Line)) {
        let service = self.model.services.entry(hash).or_default();
        service.order.entry(chain.name.to_string()).or_default().push(Place::Fact(fact.clone()), line);
        service.tell(fact, text, line);
    }
}

/// A rule without what means nothing to a packet.
fn text(family: Family, chain: &iptables::Chain, rule: &Rule) -> String {
    let mut rule = Rule { counters: None, ..rule.clone() };
    rule.matches.retain(|condition| !condition.always_holds());
    print_rule(family, &chain.name, &rule)
}
