//! Properties of the rules of a program that need no packet.

use std::collections::{BTreeSet, HashMap, HashSet};

use smallvec::SmallVec;

use super::code::Code;
use super::program::Program;
use super::translation::Destination;

/// The effect of a rule if all of its conditions hold.
#[derive(Debug)]
pub(crate) enum RuleEffect<'a> {
    /// The packet continues unchanged, except for what a list records of it.
    Passes,
    /// The packet continues with another mark.
    Marks,
    /// The packet continues in one of these chains, by position; the flag is whether it returns from each to the next rule.
    Leads(SmallVec<[u32; 1]>, bool),
    /// By chance or a lookup, the packet continues in one of these chains, by position, or has another verdict.
    Divides(SmallVec<[u32; 1]>),
    /// The connection is translated to one of these destinations.
    Translates(&'a [Destination]),
    /// The packet returns to the calling chain.
    Returns,
    /// The packet is accepted, dropped or rejected, or its fate is unknown.
    Ends,
}

/// Rules that can be inspected without a packet.
pub(crate) trait Inspect: Code {
    /// Returns the effect of a rule.
    fn effect(&self, rule: u32) -> RuleEffect<'_>;

    /// Adds the edges of a rule's conditions.
    fn edges(&self, rule: u32, edges: &mut Edges);
}

/// The values at which results of conditions change. For each packet field: at least one value from every set of values that no condition
/// distinguishes, together with a value that no condition matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) sources: BTreeSet<u128>,
    pub(crate) destinations: BTreeSet<u128>,
    pub(crate) source_ports: BTreeSet<u16>,
    pub(crate) destination_ports: BTreeSet<u16>,
    pub(crate) protocols: BTreeSet<u8>,
    /// Interface names as numbers; patterns without their wildcard.
    pub(crate) inputs: BTreeSet<u128>,
    pub(crate) outputs: BTreeSet<u128>,
    /// Whether a condition tests if the source is local.
    pub(crate) local_source: bool,
    /// Whether a condition tests if the destination is local.
    pub(crate) local_destination: bool,
    /// Packet marks. If there are any, rules that set marks matter too.
    pub(crate) marks: BTreeSet<u32>,
    /// Whether a condition depends on earlier packets or connections: lists of clients, rates.
    pub(crate) history: bool,
}

impl Edges {
    /// Adds edges that distinguish values from `first` to `last` from others.
    pub(crate) fn between(values: &mut BTreeSet<u128>, first: u128, last: u128) {
        values.extend(first.checked_sub(1));
        values.insert(first);
        values.extend(last.checked_add(1));
    }

    /// Adds edges that distinguish values equal to `value` under a mask from others.
    pub(crate) fn masked(values: &mut BTreeSet<u128>, value: u128, mask: u128) {
        values.insert(value);
        // The lowest bit of the mask is enough for another value.
        values.insert(value ^ (mask & mask.wrapping_neg()));
    }

    /// Adds edges that distinguish marks equal to `value` under a mask from others.
    pub(crate) fn mark(&mut self, value: u32, mask: u32) {
        self.marks.insert(value);
        self.marks.insert(value ^ (mask & mask.wrapping_neg()));
    }

    /// Adds edges that distinguish ports from `first` to `last` from others.
    pub(crate) fn ports(values: &mut BTreeSet<u16>, first: u16, last: u16) {
        // The lowest values are a separate set, which no edge starts.
        values.insert(u16::from(first > 1));
        values.insert(first);
        values.extend(last.checked_add(1));
    }

    /// Returns the values for source or destination addresses.
    pub(crate) fn addresses(&mut self, source: bool) -> &mut BTreeSet<u128> {
        if source { &mut self.sources } else { &mut self.destinations }
    }

    /// Returns the values for source or destination ports.
    pub(crate) fn ports_of(&mut self, source: bool) -> &mut BTreeSet<u16> {
        if source { &mut self.source_ports } else { &mut self.destination_ports }
    }
}

/// The result of scanning the rules that a chain leads to.
pub(crate) struct Scan {
    pub(crate) edges: Edges,
    /// The number of rules, including those that only set marks.
    pub(crate) rules: usize,
    /// The conditions that depend on earlier packets or connections.
    pub(crate) history: Vec<u32>,
}

/// The chains reachable from one chain.
pub(crate) struct Reach<'a, C> {
    program: &'a Program<C>,
    is_border: &'a dyn Fn(u32) -> bool,
    /// Whether marks are ignored.
    marks_pass: bool,
    /// For each visited chain, whether packets return from it unchanged.
    passes: HashMap<u32, bool>,
}

impl<'a, C: Inspect> Reach<'a, C> {
    pub(crate) fn new(program: &'a Program<C>, is_border: &'a dyn Fn(u32) -> bool, marks_pass: bool) -> Self {
        Self { program, is_border, marks_pass, passes: HashMap::new() }
    }

    /// Returns whether all packets return from a chain unchanged. False for a chain in a loop, or one that leads to too many others.
    fn passes(&mut self, chain: u32, depth: usize) -> bool {
        if depth > super::jump_limits::DEEPEST || (self.is_border)(chain) {
            return false;
        }
        if let Some(known) = self.passes.get(&chain) {
            return *known;
        }
        self.passes.insert(chain, false);
        let span = self.program.span(chain);
        let passes = (span.first..span.end).all(|rule| match self.program.code.effect(rule) {
            RuleEffect::Returns => true,
            // Packets return from there to the caller of this chain.
            RuleEffect::Leads(chains, false) => chains.iter().all(|chain| self.passes(*chain, depth + 1)),
            _ => self.is_idle(rule, depth),
        });
        self.passes.insert(chain, passes);
        passes
    }

    fn is_idle(&mut self, rule: u32, depth: usize) -> bool {
        match self.program.code.effect(rule) {
            RuleEffect::Passes => true,
            RuleEffect::Marks => self.marks_pass,
            RuleEffect::Leads(chains, true) => chains.iter().all(|chain| self.passes(*chain, depth + 1)),
            RuleEffect::Leads(_, false)
            | RuleEffect::Divides(_)
            | RuleEffect::Translates(_)
            | RuleEffect::Returns
            | RuleEffect::Ends => false,
        }
    }

    /// Returns whether packets that enter a chain return from it unchanged.
    pub(crate) fn comes_back(&mut self, chain: u32) -> bool {
        self.passes(chain, 0)
    }

    /// Returns whether a rule of the scanned chain leaves packets unchanged.
    pub(crate) fn leaves(&mut self, rule: u32) -> bool {
        self.is_idle(rule, 0)
    }

    /// Scans all rules that a chain leads to, and collects the edges of those with an effect.
    pub(crate) fn scan(&mut self, chain: u32) -> Scan {
        let (mut edges, mut rules, mut history) = (Edges::default(), 0, Vec::new());
        let (mut open, mut known) = (vec![chain], HashSet::from([chain]));
        while let Some(chain) = open.pop() {
            let span = self.program.span(chain);
            rules += (span.end - span.first) as usize;
            for rule in (span.first..span.end).filter(|rule| !self.leaves(*rule)).collect::<Vec<_>>() {
                self.program.code.edges(rule, &mut edges);
                if std::mem::take(&mut edges.history) {
                    history.push(rule);
                }
                if let RuleEffect::Leads(chains, _) | RuleEffect::Divides(chains) = self.program.code.effect(rule) {
                    open.extend(chains.into_iter().filter(|next| !(self.is_border)(*next) && known.insert(*next)));
                }
            }
        }
        Scan { edges, rules, history }
    }

    /// Returns the destinations that a chain may translate a connection to, by its own rules or by chains that they jump to.
    pub(crate) fn destinations_of(&self, chain: u32) -> Vec<&'a Destination> {
        let (mut found, mut open) = (Vec::new(), vec![chain]);
        let mut known = HashSet::new();
        while let Some(chain) = open.pop().filter(|_| known.len() < MAX_CHAINS) {
            if (self.is_border)(chain) || !known.insert(chain) {
                continue;
            }
            let span = self.program.span(chain);
            (span.first..span.end).for_each(|rule| self.add_destinations(rule, &mut found, &mut open));
        }
        found
    }

    fn add_destinations(&self, rule: u32, found: &mut Vec<&'a Destination>, open: &mut Vec<u32>) {
        match self.program.code.effect(rule) {
            RuleEffect::Translates(to) => found.extend(to),
            RuleEffect::Leads(chains, _) | RuleEffect::Divides(chains) => open.extend(chains.into_iter().rev()),
            _ => {}
        }
    }
}

/// Maximum number of chains searched for destinations.
const MAX_CHAINS: usize = 1 << 16;
