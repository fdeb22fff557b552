//! A group of endpoints, as connections find it that walk all rules of its chain.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::defect::{Defect, Kind};
use super::frontend::Frontend;
use super::naming::Naming;
use super::outcome::{Case, Fallen, Fate, Unknown};
use super::packets::{difference, machine, packets};
use super::{Chance, Step};
use crate::cluster::Protocol;
use crate::walk::{
    Destination, End, Entry, Environment, Inspect, Packet, Program, Reach, RuleEffect, RuleId, Scan, Share, Spread,
    spread,
};

/// How many times rules are asked at most for one packet, beside [`TIMES`] for each that there is.
const MOST_STEPS: usize = 1 << 16;
const TIMES: usize = 16;
/// How many rules there may be for all packets together.
const MOST_RULES: usize = 1 << 20;

/// A chain that shares connections out, in rules that are ready for walking.
pub(super) struct Group<'a, C> {
    pub(super) program: &'a Program<C>,
    /// The chain's position.
    pub(super) chain: u32,
    pub(super) protocol: Protocol,
    pub(super) frontends: &'a [Frontend],
    pub(super) names: &'a dyn Names,
}

/// What names of chains and written rules say, in either language.
pub(super) trait Names {
    /// The chance that is written at a rule of the chain, given from 1, for one of several choices; `None` where the rule leads
    /// clients to an endpoint again.
    fn chance(&self, rule: usize, choice: u32, of: u32) -> Option<Chance>;
    /// How chains are called.
    fn naming(&self) -> &Naming;
    /// The name of the group's own chain.
    fn own(&self) -> &str;
    /// The name of the chain at a position.
    fn chain(&self, position: u32) -> &str;
    /// Whether a chain is not in the text.
    fn is_missing(&self, chain: u32) -> bool;
    /// The chain that a rule leads to and that is not in the text.
    fn missing(&self, rule: RuleId) -> Option<&str>;

    /// Whether a chain of this name is an endpoint's.
    fn is_endpoint(&self, chain: &str) -> bool {
        self.naming().is_endpoint(chain)
    }

    /// Whether a chain is another group's, and is not looked into.
    fn is_group(&self, chain: u32) -> bool {
        self.naming().is_group(self.chain(chain))
    }

    /// Whether that group is one of the same service.
    fn is_kin(&self, chain: u32) -> bool {
        let own = self.naming().of_group(self.own());
        own.is_some() && own == self.naming().of_group(self.chain(chain))
    }
}

/// What was found of a group.
pub(super) struct Walked {
    pub(super) steps: Vec<Step>,
    /// How many different endpoints there are.
    pub(super) endpoints: usize,
    pub(super) left: Share,
    pub(super) fallen: Vec<Fallen>,
    pub(super) cases: Vec<Case>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) defects: Vec<Defect>,
}

/// Walks a group; nothing where no rule of it leads to an endpoint, or may do so.
pub(super) fn walk<C: Inspect>(group: &Group<'_, C>) -> Option<Walked> {
    let is_border = |chain: u32| chain != group.chain && group.names.is_group(chain);
    let mut reach = Reach::new(group.program, &is_border, true);
    let mut scan = reach.scan(group.chain);
    if !scan.edges.marks.is_empty() {
        reach = Reach::new(group.program, &is_border, false);
        scan = reach.scan(group.chain);
    }
    let Scan { edges, rules, history } = scan;
    let family = group.program.family();
    let tried = packets(family, group.protocol, group.frontends, &edges);
    let mut ledger = Ledger::new(group, &mut reach, &tried.main);
    let environment = machine(family);
    let walking = Walking { group, is_border: &is_border, forgets_marks: edges.marks.is_empty(), environment, rules };
    let parts = walking.parts(&tried.main);
    if ledger.steps.is_empty() && !parts.iter().any(|part| matches!(part.end, End::Unknown(_))) {
        return None;
    }
    parts.iter().for_each(|part| ledger.take(part));
    let others = if rules.saturating_mul(tried.others.len()) > MOST_RULES { &[][..] } else { &tried.others };
    let cases = walking.cases(&ledger, &tried.main, &parts, others);
    ledger.conditional(&cases);
    if tried.is_cut || others.len() < tried.others.len() {
        let why = "the rules tell more kinds of packets apart than are tried".to_owned();
        ledger.unknown.push(Unknown { rule: 0, share: None, why });
    }
    ledger.history(&history);
    Some(ledger.finish(&parts, cases))
}

struct Walking<'a, 'b, C> {
    group: &'a Group<'b, C>,
    is_border: &'a dyn Fn(u32) -> bool,
    forgets_marks: bool,
    environment: Environment,
    rules: usize,
}

impl<C: Inspect> Walking<'_, '_, C> {
    fn parts(&self, packet: &Packet) -> Vec<Spread> {
        let Self { group, is_border, forgets_marks, environment, rules } = self;
        let most_steps = MOST_STEPS + TIMES * rules;
        let entry = Entry { chain: group.chain, packet, is_border, forgets_marks: *forgets_marks, most_steps };
        spread(group.program, environment, &entry)
    }

    /// The packets that are treated otherwise than the main one, one of each kind.
    fn cases(&self, ledger: &Ledger<'_, '_, C>, main: &Packet, parts: &[Spread], others: &[Packet]) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for packet in others {
            let own = self.parts(packet);
            let is_same = own.len() == parts.len() && own.iter().zip(parts).all(|(one, other)| is_alike(one, other));
            if is_same || self.is_handed_on(&own) {
                continue;
            }
            let rule = own.iter().zip(parts).find(|(one, other)| !is_alike(one, other)).map_or(0, |(one, other)| {
                [one.by, other.by].into_iter().flatten().min().map_or(0, |rule| ledger.number(rule))
            });
            let fates: Vec<(Fate, Share)> = own.iter().map(|part| (ledger.fate(part), part.share)).collect();
            if !cases.iter().any(|case| case.fates == fates) {
                cases.push(Case { example: difference(packet, main), rule, fates });
            }
        }
        cases
    }

    /// Whether all connections go on to another group of the same service, as those of pods do that ask for a load balancer's address.
    fn is_handed_on(&self, parts: &[Spread]) -> bool {
        let is_kin = |part: &Spread| matches!(part.end, End::Handed(chain) if self.group.names.is_kin(chain));
        parts.iter().all(is_kin)
    }
}

/// Whether the same becomes of two parts. What lists remember of them is their own.
fn is_alike(one: &Spread, other: &Spread) -> bool {
    (one.by, &one.end, one.share) == (other.by, &other.end, other.share)
}

/// The account of a chain: what its rules lead to, and what they take.
struct Ledger<'a, 'b, C> {
    group: &'a Group<'b, C>,
    first_rule: u32,
    steps: Vec<Step>,
    /// The step of a rule and what it leads to.
    places: HashMap<(usize, String), usize>,
    fallen: Vec<Fallen>,
    unknown: Vec<Unknown>,
    defects: Vec<Defect>,
}

impl<'a, 'b, C: Inspect> Ledger<'a, 'b, C> {
    /// All that the rules of a chain lead to; nothing is taken yet.
    fn new(group: &'a Group<'b, C>, reach: &mut Reach<'_, C>, packet: &Packet) -> Self {
        let span = group.program.span(group.chain);
        let (steps, places) = (Vec::new(), HashMap::new());
        let (fallen, unknown, defects) = (Vec::new(), Vec::new(), Vec::new());
        let mut ledger = Self { group, first_rule: span.first, steps, places, fallen, unknown, defects };
        for rule in span.first..span.end {
            ledger.list(rule, reach, packet);
        }
        ledger
    }

    /// The number of a rule of the chain, from 1.
    fn number(&self, rule: u32) -> usize {
        (rule - self.first_rule) as usize + 1
    }

    /// Enters what a rule may lead to.
    fn list(&mut self, rule: u32, reach: &mut Reach<'_, C>, packet: &Packet) {
        let (names, number) = (self.group.names, self.number(rule));
        match self.group.program.code.effect(rule) {
            RuleEffect::Translates(to) => {
                let of = to.len() as u32;
                for (destination, choice) in to.iter().zip(0..) {
                    let Some(chance) = names.chance(number, choice, of) else { return };
                    self.enter(number, "", label(destination, packet), chance);
                }
            }
            RuleEffect::Leads(chains, _) => {
                let of = chains.len() as u32;
                for (chain, choice) in chains.into_iter().zip(0..) {
                    let Some(chance) = names.chance(number, choice, of) else { return };
                    self.list_chain(number, chain, chance, reach, packet);
                }
            }
            RuleEffect::Ends => {
                let missing = names.missing(RuleId(rule)).filter(|chain| names.is_endpoint(chain));
                if let Some((chain, chance)) = missing.zip(names.chance(number, 0, 1)) {
                    self.enter(number, chain, chain.to_owned(), chance);
                }
            }
            RuleEffect::Passes | RuleEffect::Marks | RuleEffect::Returns => {}
        }
    }

    fn list_chain(&mut self, rule: usize, chain: u32, chance: Chance, reach: &mut Reach<'_, C>, packet: &Packet) {
        let names = self.group.names;
        if names.is_group(chain) {
            return;
        }
        let name = self.group.program.chain_name(chain);
        let found = reach.destinations_of(chain);
        if found.is_empty() && names.is_endpoint(name) {
            self.enter(rule, name, name.to_owned(), chance);
            if !names.is_missing(chain) && reach.comes_back(chain) {
                self.found(rule, Kind::NoDestination { chain: name.to_owned() });
            }
        }
        for destination in found {
            self.enter(rule, name, label(destination, packet), chance);
        }
    }

    fn enter(&mut self, rule: usize, chain: &str, endpoint: String, chance: Chance) {
        if let Some(place) = self.places.get(&(rule, endpoint.clone())) {
            let step = &mut self.steps[*place];
            step.chance = step.chance.and(chance);
            step.places += 1;
            return;
        }
        self.places.insert((rule, endpoint.clone()), self.steps.len());
        let (chain, share) = (chain.to_owned(), Share::ZERO);
        self.steps.push(Step { endpoint, chain, rule, chance, share, cumulative: share, places: 1 });
    }

    fn found(&mut self, rule: usize, kind: Kind) {
        self.defects.push(Defect { rule, kind });
    }

    /// Gives a part of the connections to the step that it belongs to.
    fn take(&mut self, part: &Spread) {
        let rule = part.by.map_or(0, |rule| self.number(rule));
        let endpoint = match (&part.end, self.fate(part)) {
            (End::Unknown(_), Fate::Endpoint(chain)) => {
                let why = format!("what {chain} does is not in these rules");
                self.unknown.push(Unknown { rule, share: Some(part.share), why });
                chain
            }
            (_, Fate::Endpoint(endpoint)) => endpoint,
            (End::Unknown(unknown), fate) => {
                let why = self.placed(unknown.rule, &unknown.why);
                self.unknown.push(Unknown { rule, share: Some(part.share), why });
                return self.fall(rule, None, fate, part.share);
            }
            (End::Accepted(by) | End::Dropped(by) | End::Rejected(by), fate) => {
                return self.fall(rule, self.within(*by), fate, part.share);
            }
            (_, fate) => return self.fall(rule, None, fate, part.share),
        };
        match self.places.get(&(rule, endpoint.clone())) {
            Some(place) => {
                let step = &mut self.steps[*place];
                step.share = step.share.plus(part.share);
            }
            // An address that a rule leaves, with a port that it gives.
            None => {
                self.enter(rule, "", endpoint, Chance::Condition);
                if let Some(step) = self.steps.last_mut() {
                    step.share = part.share;
                }
            }
        }
    }

    /// The chain of a rule, where it is not the group's own.
    fn within(&self, rule: RuleId) -> Option<String> {
        let place = self.group.program.place(rule);
        (place.chain != self.group.program.chain_name(self.group.chain)).then(|| place.chain.to_owned())
    }

    fn placed(&self, rule: RuleId, why: &str) -> String {
        match self.within(rule) {
            Some(_) => {
                let place = self.group.program.place(rule);
                format!("{} rule {}: {why}", place.chain, place.rule)
            }
            None => why.to_owned(),
        }
    }

    fn fall(&mut self, rule: usize, within: Option<String>, fate: Fate, share: Share) {
        let alike = |other: &&mut Fallen| other.rule == rule && other.within == within && other.fate == fate;
        // Parts come in the order of rules, so that those of one rule stand near to each other.
        match self.fallen.iter_mut().rev().take(8).find(alike) {
            Some(other) => other.share = other.share.plus(share),
            None => self.fallen.push(Fallen { rule, within, fate, share }),
        }
    }

    /// What becomes of a part.
    fn fate(&self, part: &Spread) -> Fate {
        match &part.end {
            End::Translated(address, port) => {
                Fate::Endpoint(crate::digits::socket(SocketAddr::new(*address, *port)).to_string())
            }
            End::Returned => Fate::Returned,
            End::Accepted(_) => Fate::Accepted,
            End::Dropped(_) => Fate::Dropped,
            End::Rejected(_) => Fate::Rejected,
            End::Handed(chain) => Fate::Handed(self.group.program.chain_name(*chain).to_owned()),
            End::Unknown(unknown) => {
                let number = part.by.map_or(0, |rule| self.number(rule));
                let missing = self.group.names.missing(unknown.rule).map(|chain| (number, chain.to_owned()));
                match missing.filter(|place| self.places.contains_key(place)) {
                    Some((_, chain)) => Fate::Endpoint(chain),
                    None => Fate::Unknown(unknown.why.to_string()),
                }
            }
        }
    }

    /// Notes what depends on more than chance.
    fn conditional(&mut self, cases: &[Case]) {
        for case in cases {
            self.found(case.rule, Kind::Conditional { example: case.example.clone(), fates: case.fates.clone() });
        }
    }

    fn finish(mut self, parts: &[Spread], cases: Vec<Case>) -> Walked {
        let endpoints = self.add_up();
        self.never_taken(parts, &cases);
        for fallen in &self.fallen {
            let kind = match &fallen.fate {
                Fate::Unknown(_) | Fate::Endpoint(_) => continue,
                Fate::Returned if fallen.rule == 0 => Kind::FallsThrough { share: fallen.share },
                fate => Kind::Escapes { fate: fate.clone(), within: fallen.within.clone(), share: fallen.share },
            };
            self.defects.push(Defect { rule: fallen.rule, kind });
        }
        let left = self.fallen.iter().fold(Share::ZERO, |sum, fallen| sum.plus(fallen.share));
        let Self { steps, fallen, unknown, defects, .. } = self;
        Walked { steps, endpoints, left, fallen, cases, unknown, defects }
    }

    /// Sums up what steps take; returns how many endpoints there are.
    fn add_up(&mut self) -> usize {
        let mut first: HashMap<&str, (usize, Share)> = HashMap::with_capacity(self.steps.len());
        let mut sum = Share::ZERO;
        let mut again = Vec::new();
        for step in &mut self.steps {
            sum = sum.plus(step.share);
            step.cumulative = sum;
            let is_first = !first.contains_key(step.endpoint.as_str());
            let (rule, together) = first.entry(&step.endpoint).or_insert((step.rule, Share::ZERO));
            *together = together.plus(step.share);
            if !is_first || step.places > 1 {
                let kind = Kind::Duplicate { endpoint: step.endpoint.clone(), first: *rule, share: *together };
                again.push(Defect { rule: step.rule, kind });
            }
        }
        let endpoints = first.len();
        self.defects.extend(again);
        endpoints
    }

    /// Notes the steps that get nothing although their chance is not zero.
    fn never_taken(&mut self, parts: &[Spread], cases: &[Case]) {
        // All that comes to a rule leaves the chain by it or behind it.
        let last = parts.iter().map(|part| part.by.map_or(usize::MAX, |rule| self.number(rule))).max().unwrap_or(0);
        let taken_in_cases: std::collections::HashSet<&str> = cases
            .iter()
            .flat_map(|case| &case.fates)
            .filter_map(|(fate, _)| if let Fate::Endpoint(endpoint) = fate { Some(endpoint.as_str()) } else { None })
            .collect();
        let returns: std::collections::HashSet<usize> = self
            .defects
            .iter()
            .filter(|defect| matches!(defect.kind, Kind::NoDestination { .. }))
            .map(|defect| defect.rule)
            .collect();
        if self.fallen.iter().any(|fallen| matches!(fallen.fate, Fate::Unknown(_))) {
            // They may come back from where nobody can say what becomes of them.
            return;
        }
        let mut found = Vec::new();
        for step in self.steps.iter().filter(|step| step.share == Share::ZERO && !returns.contains(&step.rule)) {
            let endpoint = step.endpoint.clone();
            if step.rule > last {
                found.push(Defect { rule: step.rule, kind: Kind::Unreachable { endpoint } });
            } else if !taken_in_cases.contains(&*endpoint) && step.chance.threshold() != 0 {
                found.push(Defect { rule: step.rule, kind: Kind::NeverTaken { endpoint } });
            }
        }
        self.defects.extend(found);
    }

    /// Notes which of these rules ask for earlier packets without leading clients back to their endpoint.
    fn history(&mut self, rules: &[u32]) {
        let span = self.group.program.span(self.group.chain);
        for &rule in rules {
            if !(span.first..span.end).contains(&rule) {
                let place = self.group.program.place(RuleId(rule));
                let within = Some(format!("{} rule {}", place.chain, place.rule));
                self.found(0, Kind::History { within });
            } else if self.group.names.chance(self.number(rule), 0, 1).is_some() {
                self.found(self.number(rule), Kind::History { within: None });
            }
        }
    }
}

/// What a destination is called, for connections like the one of a packet.
fn label(destination: &Destination, packet: &Packet) -> String {
    let own = packet.tuple();
    let address = destination.address.unwrap_or(own.destination);
    let port = destination.ports.as_ref().map_or(own.destination_port, |ports| *ports.start());
    crate::digits::socket(SocketAddr::new(address, port)).to_string()
}
