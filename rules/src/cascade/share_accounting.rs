//! Accounting of shares: the endpoints that the rules of a group lead to and the share each rule takes, recorded while connections are
//! walked.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::Step;
use super::defect::{Defect, Kind};
use super::group::{Walk, Walked};
use super::outcome::{Case, ConnectionOutcome, Fallen, Unknown};
use crate::chains::{Chance, Copies, Reading};
use crate::walk::{Destination, End, Inspect, Packet, Portion, Reach, RuleEffect, RuleId, Share};

/// The ledger of a chain: the endpoints of its rules, and the shares that they take.
pub(super) struct Ledger<'a, 'w, 'b, C, R> {
    walk: &'a Walk<'w, 'b, C, R>,
    first_rule: u32,
    pub(super) steps: Vec<Step>,
    /// The index of the step for a rule and its target.
    places: HashMap<(usize, String), usize>,
    fallen: Vec<Fallen>,
    pub(super) unknown: Vec<Unknown>,
    defects: Vec<Defect>,
}

impl<'a, 'w, 'b, C: Inspect, R: Reading<'b>> Ledger<'a, 'w, 'b, C, R> {
    /// Lists all targets of a chain's rules, with shares of zero.
    pub(super) fn new(walk: &'a Walk<'w, 'b, C, R>, reach: &mut Reach<'_, C>, packet: &Packet) -> Self {
        let span = walk.program.span(walk.chain);
        let (steps, places) = (Vec::new(), HashMap::new());
        let (fallen, unknown, defects) = (Vec::new(), Vec::new(), Vec::new());
        let mut ledger = Self { walk, first_rule: span.first, steps, places, fallen, unknown, defects };
        for rule in span.first..span.end {
            ledger.list(rule, reach, packet);
        }
        ledger
    }

    /// Returns the number of a rule in the chain, from 1.
    pub(super) fn number(&self, rule: u32) -> usize {
        (rule - self.first_rule) as usize + 1
    }

    /// Records the possible targets of a rule.
    fn list(&mut self, rule: u32, reach: &mut Reach<'_, C>, packet: &Packet) {
        let (walk, number) = (self.walk, self.number(rule));
        match self.walk.program.code.effect(rule) {
            RuleEffect::Translates(to) => {
                for (destination, choice) in to.iter().zip(0..) {
                    let Some(chance) = walk.chance(number, choice) else { return };
                    self.enter(number, "", label(destination, packet), chance);
                }
            }
            RuleEffect::Leads(chains, _) | RuleEffect::Divides(chains) => {
                for (chain, choice) in chains.into_iter().zip(0..) {
                    let Some(chance) = walk.chance(number, choice) else { return };
                    self.list_chain(number, chain, chance, reach, packet);
                }
            }
            RuleEffect::Ends => {
                let missing = walk.missing(RuleId(rule)).filter(|chain| walk.reading.naming().is_endpoint(chain));
                if let Some((chain, chance)) = missing.zip(walk.chance(number, 0)) {
                    self.enter(number, chain, chain.to_owned(), chance);
                }
            }
            RuleEffect::Passes | RuleEffect::Marks | RuleEffect::Returns => {}
        }
    }

    fn list_chain(&mut self, rule: usize, chain: u32, chance: Chance, reach: &mut Reach<'_, C>, packet: &Packet) {
        if self.walk.is_group(chain) {
            return;
        }
        let (name, reading) = (self.walk.program.chain_name(chain), self.walk.reading);
        let found = reach.destinations_of(chain);
        if found.is_empty() && reading.naming().is_endpoint(name) {
            self.enter(rule, name, name.to_owned(), chance);
            if reading.endpoint(name).is_some() && reach.comes_back(chain) {
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

    /// Adds a portion of the connections to its step.
    pub(super) fn take(&mut self, part: &Portion) {
        let rule = part.by.map_or(0, |rule| self.number(rule));
        let endpoint = match (&part.end, self.fate(part)) {
            (End::Unknown(_), ConnectionOutcome::Endpoint(chain)) => {
                let why = format!("what {chain} does is not in these rules");
                self.unknown.push(Unknown { rule, share: Some(part.share), why });
                chain
            }
            (_, ConnectionOutcome::Endpoint(endpoint)) => endpoint,
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
            // The rule keeps the address and sets the port.
            None => {
                self.enter(rule, "", endpoint, Chance::Condition);
                if let Some(step) = self.steps.last_mut() {
                    step.share = part.share;
                }
            }
        }
    }

    /// Returns the chain of a rule if it is not the group's own.
    fn within(&self, rule: RuleId) -> Option<String> {
        let place = self.walk.program.place(rule);
        (place.chain != self.walk.program.chain_name(self.walk.chain)).then(|| place.chain.to_owned())
    }

    fn placed(&self, rule: RuleId, why: &str) -> String {
        match self.within(rule) {
            Some(_) => {
                let place = self.walk.program.place(rule);
                format!("{} rule {}: {why}", place.chain, place.rule)
            }
            None => why.to_owned(),
        }
    }

    fn fall(&mut self, rule: usize, within: Option<String>, fate: ConnectionOutcome, share: Share) {
        let alike = |other: &&mut Fallen| other.rule == rule && other.within == within && other.fate == fate;
        // Portions come in the order of the rules, so those of one rule are adjacent.
        match self.fallen.iter_mut().rev().take(8).find(alike) {
            Some(other) => other.share = other.share.plus(share),
            None => self.fallen.push(Fallen { rule, within, fate, share }),
        }
    }

    /// Returns the outcome of a portion.
    pub(super) fn fate(&self, part: &Portion) -> ConnectionOutcome {
        match &part.end {
            End::Translated(address, port) => {
                ConnectionOutcome::Endpoint(crate::digits::socket(SocketAddr::new(*address, *port)).to_string())
            }
            End::Returned => ConnectionOutcome::Returned,
            End::Accepted(_) => ConnectionOutcome::Accepted,
            End::Dropped(_) => ConnectionOutcome::Dropped,
            End::Rejected(_) => ConnectionOutcome::Rejected,
            End::Handed(chain) => ConnectionOutcome::Handed(self.walk.program.chain_name(*chain).to_owned()),
            End::Unknown(unknown) => {
                let number = part.by.map_or(0, |rule| self.number(rule));
                let missing = self.walk.missing(unknown.rule).map(|chain| (number, chain.to_owned()));
                match missing.filter(|place| self.places.contains_key(place)) {
                    Some((_, chain)) => ConnectionOutcome::Endpoint(chain),
                    None => ConnectionOutcome::Unknown(unknown.why.to_string()),
                }
            }
        }
    }

    /// Records the connections whose handling depends on more than chance.
    pub(super) fn conditional(&mut self, cases: &[Case]) {
        for case in cases {
            // The unknown effect of a missing chain is not a difference.
            if let [(ConnectionOutcome::Unknown(why), share)] = case.fates.as_slice() {
                self.unknown.push(Unknown { rule: case.rule, share: Some(*share), why: why.clone() });
                continue;
            }
            self.found(case.rule, Kind::Conditional { example: case.example.clone(), fates: case.fates.clone() });
        }
    }

    pub(super) fn finish(mut self, parts: &[Portion], cases: Vec<Case>) -> Walked {
        let endpoints = self.add_up();
        self.never_taken(parts, &cases);
        for fallen in &self.fallen {
            let kind = match &fallen.fate {
                ConnectionOutcome::Unknown(_) | ConnectionOutcome::Endpoint(_) => continue,
                ConnectionOutcome::Returned if fallen.rule == 0 => Kind::FallsThrough { share: fallen.share },
                fate => Kind::TakenWithoutEndpoint {
                    fate: fate.clone(),
                    within: fallen.within.clone(),
                    share: fallen.share,
                },
            };
            self.defects.push(Defect { rule: fallen.rule, kind });
        }
        let left = self.fallen.iter().fold(Share::ZERO, |sum, fallen| sum.plus(fallen.share));
        let Self { steps, fallen, unknown, defects, .. } = self;
        Walked { steps, endpoints, left, fallen, cases, unknown, defects }
    }

    /// Sums up the shares of the steps, and returns the number of endpoints.
    fn add_up(&mut self) -> usize {
        let mut first: HashMap<&str, (usize, Share)> = HashMap::with_capacity(self.steps.len());
        let mut sum = Share::ZERO;
        let mut again = Vec::new();
        let copies = self.copies();
        let mut taken_by_copies: HashMap<usize, Share> = HashMap::new();
        for step in &mut self.steps {
            sum = sum.plus(step.share);
            step.cumulative = sum;
            let is_first = !first.contains_key(step.endpoint.as_str());
            let (rule, together) = first.entry(&step.endpoint).or_insert((step.rule, Share::ZERO));
            *together = together.plus(step.share);
            if let Some(first) = copies.get(&step.rule) {
                let taken = taken_by_copies.entry(*first).or_insert(Share::ZERO);
                *taken = taken.plus(step.share);
            }
            if copies.get(&step.rule).is_some_and(|first| *first != step.rule) {
                continue;
            }
            if !is_first || step.places > 1 {
                let kind = Kind::Duplicate { endpoint: step.endpoint.clone(), first: *rule, share: *together };
                again.push(Defect { rule: step.rule, kind });
            }
        }
        let endpoints = first.len();
        self.defects.extend(again);
        self.defects.extend(self.walk.group.copies.iter().map(|Copies { numbers, .. }| {
            let (first, times) = (numbers[0], numbers.len());
            let share = taken_by_copies.get(&first).copied().unwrap_or(Share::ZERO);
            let mut endpoints = self.steps.iter().filter(|step| step.rule == first).map(|step| &step.endpoint);
            let endpoint = endpoints.next().filter(|_| endpoints.next().is_none()).cloned();
            Defect { rule: numbers[1], kind: Kind::Repeated { first, times, endpoint, share } }
        }));
        endpoints
    }

    /// Returns the duplicate rules by number, each with the number of its first copy.
    fn copies(&self) -> HashMap<usize, usize> {
        let all = self.walk.group.copies.iter();
        all.flat_map(|copies| copies.numbers.iter().map(|number| (*number, copies.numbers[0]))).collect()
    }

    /// Records the steps that get no connections although their probability is not zero.
    fn never_taken(&mut self, parts: &[Portion], cases: &[Case]) {
        // Every connection that reaches a rule leaves the chain at this rule or later.
        let last = parts.iter().map(|part| part.by.map_or(usize::MAX, |rule| self.number(rule))).max().unwrap_or(0);
        let taken_in_cases: HashSet<&str> =
            cases
                .iter()
                .flat_map(|case| &case.fates)
                .filter_map(|(fate, _)| {
                    if let ConnectionOutcome::Endpoint(endpoint) = fate { Some(endpoint.as_str()) } else { None }
                })
                .collect();
        let returns: HashSet<usize> = self
            .defects
            .iter()
            .filter(|defect| matches!(defect.kind, Kind::NoDestination { .. }))
            .map(|defect| defect.rule)
            .collect();
        if self.fallen.iter().any(|fallen| matches!(fallen.fate, ConnectionOutcome::Unknown(_))) {
            // Connections may return from a chain whose outcome is unknown.
            return;
        }
        let mut found = Vec::new();
        let copies = self.copies();
        let is_copy = |rule: usize| copies.get(&rule).is_some_and(|first| *first != rule);
        let without_share = |step: &&Step| step.share == Share::ZERO && !returns.contains(&step.rule);
        for step in self.steps.iter().filter(without_share).filter(|step| !is_copy(step.rule)) {
            let endpoint = step.endpoint.clone();
            if step.rule > last {
                found.push(Defect { rule: step.rule, kind: Kind::Unreachable { endpoint } });
            } else if !taken_in_cases.contains(&*endpoint) && step.chance.threshold() != 0 {
                found.push(Defect { rule: step.rule, kind: Kind::NeverTaken { endpoint } });
            }
        }
        self.defects.extend(found);
    }

    /// Records which of these rules depend on earlier packets without being affinity lookups.
    pub(super) fn history(&mut self, rules: &[u32]) {
        let span = self.walk.program.span(self.walk.chain);
        for &rule in rules {
            if !(span.first..span.end).contains(&rule) {
                let place = self.walk.program.place(RuleId(rule));
                let within = Some(format!("{} rule {}", place.chain, place.rule));
                self.found(0, Kind::History { within });
            } else if self.walk.chance(self.number(rule), 0).is_some() {
                self.found(self.number(rule), Kind::History { within: None });
            }
        }
    }
}

/// Names a destination, for connections like the given packet.
fn label(destination: &Destination, packet: &Packet) -> String {
    let own = packet.tuple();
    let address = destination.address.unwrap_or(own.destination);
    let port = destination.ports.as_ref().map_or(own.destination_port, |ports| *ports.start());
    crate::digits::socket(SocketAddr::new(address, port)).to_string()
}
