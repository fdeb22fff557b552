//! Properties of the rules of a program that need no packet.

use std::collections::{BTreeSet, HashMap, HashSet};

use smallvec::SmallVec;

use super::code::Code;
use super::program::Program;
use super::translation::Destination;

/// What a rule does where all of its conditions hold.
#[derive(Debug)]
pub(crate) enum RuleEffect<'a> {
    /// The packet continues unchanged, except for what a list records of it.
    Passes,
    /// It continues with another mark.
    Marks,
    /// It continues in one of these chains, by their positions; whether it comes back from each to the next rule.
    Leads(SmallVec<[u32; 1]>, bool),
    /// Its connection gets one of these destinations.
    Translates(&'a [Destination]),
    /// It goes back to where the chain was called.
    Returns,
    /// It goes elsewhere: accepted, dropped, rejected, or unknown.
    Ends,
}

/// Rules that can be looked at without a packet.
pub(crate) trait Inspect: Code {
    /// What a rule does.
    fn effect(&self, rule: u32) -> RuleEffect<'_>;

    /// Adds where the results of a rule's conditions change from one packet to another.
    fn edges(&self, rule: u32, edges: &mut Edges);
}

/// Where results of conditions change from one packet to another. For each field of a packet: values of which every set of
/// values that no condition distinguishes has at least one, together with a value that no condition names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) sources: BTreeSet<u128>,
    pub(crate) destinations: BTreeSet<u128>,
    pub(crate) source_ports: BTreeSet<u16>,
    pub(crate) destination_ports: BTreeSet<u16>,
    pub(crate) protocols: BTreeSet<u8>,
    /// Names of interfaces, as numbers; a pattern is there without its end.
    pub(crate) inputs: BTreeSet<u128>,
    pub(crate) outputs: BTreeSet<u128>,
    /// Whether a condition tests if the source is the machine's own.
    pub(crate) local_source: bool,
    /// Whether a condition tests if the destination is the machine's own.
    pub(crate) local_destination: bool,
    /// Marks of packets. Where there are any, what rules set of them matters too.
    pub(crate) marks: BTreeSet<u32>,
    /// Whether a condition depends on earlier packets or connections: lists of clients, rates.
    pub(crate) history: bool,
}

impl Edges {
    /// Values from `first` to `last` are distinguished from others.
    pub(crate) fn between(values: &mut BTreeSet<u128>, first: u128, last: u128) {
        values.extend(first.checked_sub(1));
        values.insert(first);
        values.extend(last.checked_add(1));
    }

    /// Values that are `value` under a mask are distinguished from others.
    pub(crate) fn masked(values: &mut BTreeSet<u128>, value: u128, mask: u128) {
        values.insert(value);
        // The lowest bit of the mask is enough for another value.
        values.insert(value ^ (mask & mask.wrapping_neg()));
    }

    /// Marks that are `value` under a mask are distinguished from others.
    pub(crate) fn mark(&mut self, value: u32, mask: u32) {
        self.marks.insert(value);
        self.marks.insert(value ^ (mask & mask.wrapping_neg()));
    }

    /// Ports from `first` to `last` are distinguished from others.
    pub(crate) fn ports(values: &mut BTreeSet<u16>, first: u16, last: u16) {
        // The lowest values are a set of their own, which no edge begins.
        values.insert(u16::from(first > 1));
        values.insert(first);
        values.extend(last.checked_add(1));
    }

    /// The sets of values for addresses of one side: sources, else destinations.
    pub(crate) fn addresses(&mut self, source: bool) -> &mut BTreeSet<u128> {
        if source { &mut self.sources } else { &mut self.destinations }
    }

    /// The sets of values for ports of one side.
    pub(crate) fn ports_of(&mut self, source: bool) -> &mut BTreeSet<u16> {
        if source { &mut self.source_ports } else { &mut self.destination_ports }
    }
}

/// What was found of the rules that a chain leads to.
pub(crate) struct Scan {
    pub(crate) edges: Edges,
    /// How many there are, those that only set marks included.
    pub(crate) rules: usize,
    /// The conditions that depend on earlier packets or connections.
    pub(crate) history: Vec<u32>,
}

/// What is known of the chains that one chain leads to.
pub(crate) struct Reach<'a, C> {
    program: &'a Program<C>,
    is_border: &'a dyn Fn(u32) -> bool,
    /// Whether marks count as nothing.
    marks_pass: bool,
    /// For each chain that was looked at: whether packets come back from it as they went in.
    passes: HashMap<u32, bool>,
}

impl<'a, C: Inspect> Reach<'a, C> {
    pub(crate) fn new(program: &'a Program<C>, is_border: &'a dyn Fn(u32) -> bool, marks_pass: bool) -> Self {
        Self { program, is_border, marks_pass, passes: HashMap::new() }
    }

    /// Whether packets come back from a chain as they went in, whatever they are. A chain that leads to itself, or to too many others,
    /// is none of these.
    fn passes(&mut self, chain: u32, depth: usize) -> bool {
        if depth > super::jump_depth::DEEPEST || (self.is_border)(chain) {
            return false;
        }
        if let Some(known) = self.passes.get(&chain) {
            return *known;
        }
        self.passes.insert(chain, false);
        let span = self.program.span(chain);
        let passes = (span.first..span.end).all(|rule| match self.program.code.effect(rule) {
            RuleEffect::Returns => true,
            // Packets come back from there to where this chain was called.
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
            RuleEffect::Leads(_, false) | RuleEffect::Translates(_) | RuleEffect::Returns | RuleEffect::Ends => false,
        }
    }

    /// Whether packets that enter a chain come back from it as they were.
    pub(crate) fn comes_back(&mut self, chain: u32) -> bool {
        self.passes(chain, 0)
    }

    /// Whether a rule of the chain that is looked at leaves packets as they came.
    pub(crate) fn leaves(&mut self, rule: u32) -> bool {
        self.is_idle(rule, 0)
    }

    /// The edges of all rules that a chain leads to and that do something to a packet.
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
                if let RuleEffect::Leads(chains, _) = self.program.code.effect(rule) {
                    open.extend(chains.into_iter().filter(|next| !(self.is_border)(*next) && known.insert(*next)));
                }
            }
        }
        Scan { edges, rules, history }
    }

    /// The destinations that a chain may give a connection, by its own rules or by chains that they lead to.
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
            RuleEffect::Leads(chains, _) => open.extend(chains.into_iter().rev()),
            _ => {}
        }
    }
}

/// Chains in which destinations are looked up.
const MAX_CHAINS: usize = 1 << 16;
