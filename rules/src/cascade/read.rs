//! iptables rules to cascades.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::affinity::{Endpoint, Key, Note, Recall, affinity};
use super::defect::{Defect, Kind};
use super::frontend::{Frontend, Leads, frontend};
use super::identity::{self, Own};
use super::judge::{About, Extent, judge};
use super::naming::Naming;
use super::outcome::Unknown;
use super::walked::{Group, Names, walk};
use super::written::{CHAINS, asked, destination};
use super::{Cascade, Chance};
use crate::cluster::{Family, Protocol};
use crate::iptables::evaluate::Program;
use crate::iptables::{
    Chain, Match, Nat, Ports, Probability, Recent, RecentAction, Rule, RuleSet, Statistic, Table, TableName, Target,
};
use crate::walk::RuleId;

/// Chains that only set a mark: what they do is known where a text does not show it.
const MARKING: [&str; 2] = ["KUBE-MARK-MASQ", "KUBE-MARK-DROP"];

/// Every chain of a rule set that shares connections out among endpoints, in the rule set's order: kube-proxy's chains of
/// services, and chains of others that translate by chance themselves.
pub fn cascades(rules: &RuleSet) -> Vec<Cascade> {
    cascades_of(rules, Extent::Whole)
}

/// The same of rules that may be a part of a whole.
pub fn cascades_of(rules: &RuleSet, extent: Extent) -> Vec<Cascade> {
    let Some(nat) = rules.table(TableName::Nat) else { return Vec::new() };
    let nat = completed(nat, extent);
    let text = Text::new(&nat, rules.family, extent);
    let is_group = |chain: &&Chain| CHAINS.is_group(&chain.name) || draws_lots(chain);
    let groups = nat.chains.iter().filter(is_group);
    let mut cascades: Vec<Cascade> = groups.filter_map(|chain| text.cascade(chain)).collect();
    orphans(nat.chains.as_slice(), extent, &mut cascades);
    cascades
}

/// A table with the chains that are known without being shown, and, where it is a part of a whole, without endpoints' chains of which
/// the part that translates is not shown.
fn completed(table: &Table, extent: Extent) -> Cow<'_, Table> {
    let jumps = || table.chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let is_lacking = |name: &&str| table.chain(name).is_none() && jumps().any(|next| **next == **name);
    let lacking: Vec<&str> = MARKING.into_iter().filter(is_lacking).collect();
    let is_cut = |chain: &Chain| {
        let is_part = extent == Extent::Part && CHAINS.is_endpoint(&chain.name);
        is_part && !chain.rules.iter().any(|rule| destination(rule).is_some())
    };
    if lacking.is_empty() && !table.chains.iter().any(is_cut) {
        return Cow::Borrowed(table);
    }
    let shown = table.chains.iter().filter(|chain| !is_cut(chain)).cloned();
    let chains = shown.chain(lacking.into_iter().map(Chain::user)).collect();
    Cow::Owned(Table { name: table.name, chains })
}

/// Whether a rule of a chain translates by chance, as people write cascades by hand.
fn draws_lots(chain: &Chain) -> bool {
    let by_chance = |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(Statistic::Random(_))));
    chain.rules.iter().any(|rule| destination(rule).is_some() && by_chance(rule))
}

/// A table in all the ways in which cascades look at it.
struct Text<'a> {
    chains: HashMap<&'a str, &'a Chain>,
    leads: Leads<'a>,
    program: Program,
    positions: HashMap<Box<str>, u32>,
    family: Family,
    extent: Extent,
}

impl<'a> Text<'a> {
    fn new(nat: &'a Table, family: Family, extent: Extent) -> Self {
        let program = Program::of_chains(nat, family);
        let positions = (0..).zip(&program.names).map(|(at, names)| (names.chain.clone(), at)).collect();
        Self {
            chains: nat.chains.iter().map(|chain| (&*chain.name, chain)).collect(),
            leads: Leads::of(nat, |name| CHAINS.is_endpoint(name)),
            program,
            positions,
            family,
            extent,
        }
    }

    fn endpoint(&self, name: &str) -> Option<&'a Chain> {
        self.chains.get(name).copied()
    }

    /// The frontends of a chain: of the rules that lead there, else of its own rules that translate.
    fn frontends(&self, chain: &Chain) -> Vec<Frontend> {
        let mut frontends = self.leads.frontends(&chain.name);
        if frontends.is_empty() {
            for frontend in chain.rules.iter().filter(|rule| destination(rule).is_some()).filter_map(frontend) {
                if !frontends.contains(&frontend) {
                    frontends.push(frontend);
                }
            }
        }
        frontends
    }

    fn cascade(&self, chain: &Chain) -> Option<Cascade> {
        let frontends = self.frontends(chain);
        let led: Vec<Led<'_>> = chain.rules.iter().zip(1..).filter_map(|(rule, number)| led(rule, number)).collect();
        let own: Vec<&Rule> =
            led.iter().filter_map(|one| self.endpoint(one.chain)).flat_map(|own| &own.rules).collect();
        let service = chain.rules.iter().chain(own.iter().copied()).find_map(service_in).unwrap_or(&chain.name);
        let protocol = protocol(&chain.name, service, &frontends, chain, &own);
        let names = Written { text: self, chain, frontends: &frontends };
        let position = *self.positions.get(&*chain.name)?;
        let group = Group {
            program: &self.program,
            chain: position,
            protocol: protocol.unwrap_or(Protocol::Tcp),
            frontends: &frontends,
            names: &names,
        };
        let walked = walk(&group)?;
        let (has_affinity, mut defects) = self.affinity(chain, &led);
        let about = Own { service, chain: &chain.name, protocol: group.protocol };
        let endpoints = led.iter().filter(|one| one.recent.is_none());
        let endpoints = endpoints.filter_map(|one| Some((one.number, one.rule, self.endpoint(one.chain)?)));
        defects.extend(identity::check(&about, endpoints.collect()));
        defects.extend(self.without_protocol(chain, &led));
        let (service, chain, extent) = (service.to_owned(), chain.name.to_string(), self.extent);
        Some(judge(About { service, protocol, frontends, chain, has_affinity, defects, extent }, walked))
    }

    /// Rules that give a port without a protocol: of the chain itself, and of endpoints' chains, once each.
    fn without_protocol(&self, chain: &Chain, led: &[Led<'_>]) -> Vec<Defect> {
        let own = chain.rules.iter().zip(1..).filter(|(rule, _)| lacks_protocol(rule));
        let own = own.map(|(_, rule)| Defect { rule, kind: Kind::PortWithoutProtocol { chain: None } });
        let mut known = HashSet::new();
        let is_faulty = |name: &str| self.endpoint(name).is_some_and(|own| own.rules.iter().any(lacks_protocol));
        let led = led.iter().filter(|one| one.recent.is_none() && known.insert(one.chain) && is_faulty(one.chain));
        let named = |chain: &str| Kind::PortWithoutProtocol { chain: Some(chain.to_owned()) };
        own.chain(led.map(|one| Defect { rule: one.number, kind: named(one.chain) })).collect()
    }

    fn affinity(&self, chain: &Chain, led: &[Led<'_>]) -> (bool, Vec<Defect>) {
        let recalls: Vec<Recall<'_>> = led.iter().filter_map(|one| recall(one, self.family)).collect();
        let mut known = HashSet::new();
        let new = led.iter().filter(|one| one.recent.is_none() && !one.chain.is_empty() && known.insert(one.chain));
        let endpoints = new.map(|one| {
            let own = self.endpoint(one.chain);
            let notes = own.map(|own| own.rules.iter().flat_map(|rule| notes(rule, self.family)).collect());
            Endpoint { rule: one.number, chain: one.chain, notes }
        });
        let endpoints: Vec<Endpoint<'_>> = endpoints.collect();
        let label =
            |name: &str| label(name, self.endpoint(name).and_then(|own| own.rules.iter().find_map(destination)));
        let mut found = affinity(&recalls, &endpoints, label);
        // Clients that a rule of the group notes are not those of an endpoint.
        for (rule, number) in chain.rules.iter().zip(1..) {
            let noted =
                notes(rule, self.family).into_iter().find(|note| recalls.iter().any(|one| one.list == note.list));
            if let Some((note, recall)) =
                noted.and_then(|note| Some((note.list, recalls.iter().find(|one| one.list == note.list)?)))
            {
                let kind = Kind::NotedByAll { list: note.to_owned(), endpoint: label(recall.endpoint) };
                found.push(Defect { rule: number, kind });
            }
        }
        (!recalls.is_empty(), found)
    }
}

/// What names and written rules say of the walk.
struct Written<'a, 'b> {
    text: &'a Text<'b>,
    chain: &'a Chain,
    frontends: &'a [Frontend],
}

impl Names for Written<'_, '_> {
    fn chance(&self, rule: usize, _: u32, _: u32) -> Option<Chance> {
        let rule = self.chain.rules.get(rule - 1)?;
        let leads_back = asks_recent(rule).is_some() && led(rule, 1).is_some();
        (!leads_back).then(|| chance(rule, self.frontends))
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

    fn is_missing(&self, _: u32) -> bool {
        false
    }

    fn missing(&self, rule: RuleId) -> Option<&str> {
        let place = self.text.program.place(rule);
        let next = self.text.chains.get(place.chain)?.rules.get(place.rule - 1)?.next_chain()?;
        (!self.text.chains.contains_key(&**next)).then_some(&**next)
    }
}

/// A rule of a group that leads to an endpoint.
pub(super) struct Led<'a> {
    pub(super) number: usize,
    pub(super) rule: &'a Rule,
    /// The endpoint's chain; empty where the rule translates by itself.
    pub(super) chain: &'a str,
    /// What it asks of a list of clients.
    pub(super) recent: Option<&'a Recent>,
}

fn led(rule: &Rule, number: usize) -> Option<Led<'_>> {
    let chain = match destination(rule) {
        Some(_) => "",
        None => rule.next_chain().filter(|next| CHAINS.is_endpoint(next))?,
    };
    Some(Led { number, rule, chain, recent: asks_recent(rule) })
}

/// What a rule asks of a list of clients.
fn asks_recent(rule: &Rule) -> Option<&Recent> {
    rule.matches.iter().find_map(|one| match one {
        Match::Recent(recent) if recent.action.value != RecentAction::Set => Some(&**recent),
        _ => None,
    })
}

/// The chance that is written at a rule, beside what all rules of a service have in common: a protocol, one of its frontends.
fn chance(rule: &Rule, frontends: &[Frontend]) -> Chance {
    let mut chance = Chance::Always;
    let is_frontend = frontend(rule).is_some_and(|frontend| frontends.contains(&frontend));
    let is_target = |ports: &Ports| is_frontend && ports.source.is_none() && ports.flags.is_none();
    for one in &rule.matches {
        chance = match (one, chance) {
            (Match::Comment(_) | Match::Nfacct(_), chance) => chance,
            (Match::Ports(ports), chance) if *ports == Ports::any(ports.protocol) || is_target(ports) => chance,
            (Match::Recent(recent), chance) if recent.action.value == RecentAction::Set => chance,
            (Match::Statistic(statistic), Chance::Always) => drawn(*statistic),
            _ => Chance::Condition,
        };
    }
    let asks = rule.source.is_some()
        || (rule.destination.is_some() && !is_frontend)
        || rule.in_interface.is_some()
        || rule.out_interface.is_some();
    if asks { Chance::Condition } else { chance }
}

fn drawn(statistic: Statistic) -> Chance {
    match statistic {
        Statistic::Random(random) if !random.negated => Chance::Below(random.value),
        Statistic::Random(random) => Probability::from_threshold(Probability::ONE - random.value.threshold())
            .map_or(Chance::Condition, Chance::Below),
        Statistic::Nth { every, .. } => match (every.value, every.negated) {
            (0 | 1, false) => Chance::Always,
            (0 | 1, true) => Chance::Condition,
            (every, negated) => Chance::Nth { part: if negated { every - 1 } else { 1 }, every },
        },
    }
}

/// `namespace/name:port` in a rule's comment.
pub(super) fn service_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

/// The protocol of a service: that of which its chain's name is the hash, that of its frontends, else that which most of its endpoints'
/// rules have.
fn protocol(chain: &str, service: &str, frontends: &[Frontend], group: &Chain, own: &[&Rule]) -> Option<Protocol> {
    let by_name = || identity::verified(chain, service).map(|(_, protocol)| protocol);
    let most = || {
        let translating =
            own.iter().copied().chain(&group.rules).filter(|rule| matches!(rule.target, Some(Target::Dnat(_))));
        let mut counts: Vec<(Protocol, usize)> = Vec::new();
        for protocol in translating.filter_map(asked) {
            match counts.iter_mut().find(|(known, _)| *known == protocol) {
                Some((_, count)) => *count += 1,
                None => counts.push((protocol, 1)),
            }
        }
        // Of those that are as frequent, the first one.
        let usual = counts.iter().rev().max_by_key(|(_, count)| *count).map(|(protocol, _)| *protocol);
        usual.or_else(|| group.rules.iter().find_map(asked))
    };
    by_name().or_else(|| frontends.first().map(|frontend| frontend.protocol)).or_else(most)
}

/// The key by which a list has clients; a mask of all bits counts as none.
fn key(recent: &Recent, family: Family) -> Key {
    let whole = match recent.mask {
        std::net::IpAddr::V4(mask) => mask.to_bits() == u32::MAX,
        std::net::IpAddr::V6(mask) => mask.to_bits() == u128::MAX,
    };
    let fits = Family::of(recent.mask) == family;
    Key { destination: recent.destination, mask: Some(recent.mask).filter(|_| fits && !whole) }
}

fn recall<'a>(led: &Led<'a>, family: Family) -> Option<Recall<'a>> {
    let recent = led.recent?;
    let others = led.rule.matches.iter().filter(|one| !matches!(one, Match::Comment(_) | Match::Recent(_))).count();
    let is_plain = others == 0
        && !recent.action.negated
        && !recent.same_ttl
        && recent.hit_count.unwrap_or(1) <= 1
        && led.rule.source.is_none()
        && led.rule.destination.is_none()
        && led.rule.in_interface.is_none()
        && led.rule.out_interface.is_none();
    let (list, seconds) = (&*recent.name, recent.seconds);
    Some(Recall { rule: led.number, list, key: key(recent, family), seconds, endpoint: led.chain, is_plain })
}

/// The lists that a rule notes clients in.
fn notes(rule: &Rule, family: Family) -> Vec<Note<'_>> {
    let noting = rule.matches.iter().filter_map(|one| match one {
        Match::Recent(recent) if recent.action.value == RecentAction::Set => Some(&**recent),
        _ => None,
    });
    let conditions = rule.matches.iter().filter(|one| match one {
        Match::Comment(_) | Match::Recent(_) => false,
        Match::Ports(ports) => *ports != Ports::any(ports.protocol),
        _ => true,
    });
    let is_plain = rule.source.is_none() && rule.destination.is_none() && conditions.count() == 0;
    noting.map(|recent| Note { list: &recent.name, key: key(recent, family), is_plain }).collect()
}

/// What an endpoint is called.
fn label(chain: &str, destination: Option<SocketAddr>) -> String {
    destination.map_or_else(|| chain.to_owned(), |address| crate::digits::socket(address).to_string())
}

/// Whether the kernel refuses a rule because it gives a port to packets that may have none ("Need TCP, UDP, SCTP or DCCP with port
/// specification", `libxt_NAT.c`).
fn lacks_protocol(rule: &Rule) -> bool {
    /// Those of which iptables takes a port; of ICMP, it is the identifier.
    const WITH_PORTS: [u8; 5] = [1, 6, 17, 33, 132];
    let has_ports = rule.protocol.is_some_and(|asked| !asked.negated && WITH_PORTS.contains(&asked.value.0));
    matches!(rule.target, Some(Target::Dnat(Nat { ports: Some(_), .. }))) && !has_ports
}

/// Finds endpoints that translate for a service, but that no rule leads to. In a part of the rules, that rule may be among those that
/// are not shown; the chain that has all endpoints lacks it then.
fn orphans(chains: &[Chain], extent: Extent, cascades: &mut [Cascade]) {
    let jumps = chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).filter(|next| CHAINS.is_endpoint(next)).collect();
    let alone = chains.iter().filter(|chain| CHAINS.is_endpoint(&chain.name) && !led.contains(&*chain.name));
    for chain in alone {
        let Some((address, service)) =
            chain.rules.iter().find_map(destination).zip(chain.rules.iter().find_map(service_in))
        else {
            continue;
        };
        let (endpoint, chain) = (address.to_string(), chain.name.to_string());
        let mut own = cascades.iter_mut().filter(|cascade| cascade.service == service);
        match extent {
            Extent::Whole => {
                if let Some(own) = own.next() {
                    own.defects.push(Defect { rule: 0, kind: Kind::Orphan { endpoint, chain } });
                }
            }
            Extent::Part => {
                if let Some(own) = own.find(|cascade| cascade.chain.starts_with(CHAINS.groups[0])) {
                    let why =
                        format!("{endpoint} has a chain, {chain}, but the rule that leads there is not among these");
                    own.unknown.push(Unknown { rule: 0, share: None, why });
                }
            }
        }
    }
}
