//! Distribution of all connections that enter one chain, by its rules and those of the chains that it jumps to.
//!
//! The [walk through a hook](super::machine) follows every random branch to its end. Here, branches that are equal again after a rule are
//! merged, so that the work grows with the number of rules, however many random choices there are.

use std::net::IpAddr;

use super::branch::{Assumptions, By, Effects, HookVerdict, Unknown};
use super::chain_position::{MAX_ALIKE, Next};
use super::code::Code;
use super::connection::Tracking;
use super::environment::Environment;
use super::hook::Hook;
use super::jump_limits::DEEPEST;
use super::machine::meet_alone;
use super::packet::Packet;
use super::program::Program;
use super::share::Share;
use super::trace::{NoTrace, RuleId};
use super::walker::Walker;

/// A part of the connections.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Portion {
    /// The rule by which they left the entered chain; `None` if they reached its end.
    pub(crate) by: Option<u32>,
    /// Their share of all connections.
    pub(crate) share: Share,
    pub(crate) end: End,
    pub(crate) effects: Effects,
    pub(crate) assumptions: Assumptions,
}

/// The outcome of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// They are translated to a destination.
    Translated(IpAddr, u16),
    /// They return from the entered chain unchanged.
    Returned,
    /// A rule accepts them unchanged.
    Accepted(RuleId),
    Dropped(RuleId),
    Rejected(RuleId),
    /// They continue in a chain that the walk does not enter.
    Handed(u32),
    Unknown(Unknown),
}

/// The connections to distribute.
pub(crate) struct Entry<'a> {
    /// The chain that connections enter.
    pub(crate) chain: u32,
    /// The first packet of one of them.
    pub(crate) packet: &'a Packet,
    /// Whether the walk must not enter a chain.
    pub(crate) is_border: &'a dyn Fn(u32) -> bool,
    /// Whether no rule matches marks, so that they need not be kept.
    pub(crate) forgets_marks: bool,
    /// The maximum number of rule evaluations.
    pub(crate) most_steps: usize,
}

/// Returns the portions of all connections like that of a packet. Their shares add up to one, except for rounding; they are in the order in
/// which rules take them.
pub(crate) fn distribute<C: Code>(program: &Program<C>, environment: &Environment, entry: &Entry<'_>) -> Vec<Portion> {
    let mut walker = Walker::new(entry.packet, Tracking::first(entry.packet), NoTrace);
    walker.look_up();
    let (steps, path, parts) = (entry.most_steps, Vec::new(), Vec::new());
    let mut spreading = Spreading { program, environment, entry, path, by: None, steps, parts };
    for walker in spreading.run(entry.chain, vec![walker]) {
        spreading.emit(walker, None, End::Returned);
    }
    spreading.parts
}

struct Spreading<'a, C> {
    program: &'a Program<C>,
    environment: &'a Environment,
    entry: &'a Entry<'a>,
    /// The chains from the entered one to the current one, inclusive.
    path: Vec<u32>,
    /// The rule of the entered chain that is being evaluated or led here.
    by: Option<u32>,
    steps: usize,
    parts: Vec<Portion>,
}

impl<C: Code> Spreading<'_, C> {
    /// Walks branches through a chain; returns those that return from it.
    fn run(&mut self, chain: u32, mut here: Vec<Walker<NoTrace>>) -> Vec<Walker<NoTrace>> {
        self.path.push(chain);
        let span = self.program.span(chain);
        let mut back = Vec::new();
        for rule in span.first..span.end {
            if here.is_empty() {
                break;
            }
            if self.path.len() == 1 {
                self.by = Some(rule);
            }
            here = self.pass_rule(rule, here, &mut back);
        }
        self.path.pop();
        if self.path.is_empty() {
            // Branches that a rule returned are in `parts` already; no rule took these.
            return here;
        }
        here.into_iter().for_each(|walker| self.put(&mut back, walker));
        back
    }

    /// Walks branches through a rule: returns those that continue after it, and adds those that return from the chain to `back`.
    fn pass_rule(
        &mut self,
        rule: u32,
        here: Vec<Walker<NoTrace>>,
        back: &mut Vec<Walker<NoTrace>>,
    ) -> Vec<Walker<NoTrace>> {
        let mut onward = Vec::new();
        let mut led: Vec<(u32, bool, Vec<Walker<NoTrace>>)> = Vec::new();
        for walker in here {
            if self.steps == 0 {
                self.unknown(walker, rule, "there are too many rules to follow".into());
                continue;
            }
            self.steps -= 1;
            for (walker, next) in meet_alone(&self.program.code, self.environment, Hook::Prerouting, walker, rule) {
                match next {
                    Next::Rule => self.put(&mut onward, walker),
                    Next::Return => self.go_back(walker, back),
                    Next::Accept => self.accept(walker, rule),
                    Next::End(outcome) => self.end(walker, rule, *outcome),
                    Next::Jump(chain) | Next::Goto(chain) if (self.entry.is_border)(chain) => {
                        self.emit(walker, self.by, End::Handed(chain));
                    }
                    Next::Jump(chain) => add(&mut led, chain, true, walker),
                    Next::Goto(chain) => add(&mut led, chain, false, walker),
                }
            }
        }
        for (chain, comes_back, walkers) in led {
            for walker in self.lead(rule, chain, walkers) {
                if comes_back { self.put(&mut onward, walker) } else { self.go_back(walker, back) }
            }
        }
        onward
    }

    /// Walks branches through a chain that a rule jumps to.
    fn lead(&mut self, rule: u32, chain: u32, walkers: Vec<Walker<NoTrace>>) -> Vec<Walker<NoTrace>> {
        let why = if self.path.contains(&chain) {
            "a loop of chains, which the kernel rejects"
        } else if self.path.len() >= DEEPEST {
            "chains are more than 16 deep here"
        } else {
            let mut merged = Vec::with_capacity(1);
            walkers.into_iter().for_each(|walker| self.put(&mut merged, walker));
            return self.run(chain, merged);
        };
        walkers.into_iter().for_each(|walker| self.unknown(walker, rule, why.into()));
        Vec::new()
    }

    fn go_back(&mut self, walker: Walker<NoTrace>, back: &mut Vec<Walker<NoTrace>>) {
        if self.path.len() == 1 { self.emit(walker, self.by, End::Returned) } else { self.put(back, walker) }
    }

    fn accept(&mut self, walker: Walker<NoTrace>, rule: u32) {
        let connection = walker.tracking().connection().copied();
        let end = match connection.filter(|connection| connection.destination_settled) {
            Some(connection) => End::Translated(connection.reply.source, connection.reply.source_port),
            None => End::Accepted(RuleId(rule)),
        };
        self.emit(walker, self.by, end);
    }

    fn end(&mut self, walker: Walker<NoTrace>, rule: u32, outcome: HookVerdict) {
        let end = match outcome {
            HookVerdict::Accept => End::Accepted(RuleId(rule)),
            HookVerdict::Drop(By::Rule(rule)) => End::Dropped(rule),
            HookVerdict::Drop(By::Policy(_)) => End::Dropped(RuleId(rule)),
            HookVerdict::Reject(rule, _) => End::Rejected(rule),
            HookVerdict::Unknown(unknown) => End::Unknown(unknown),
        };
        self.emit(walker, self.by, end);
    }

    fn unknown(&mut self, walker: Walker<NoTrace>, rule: u32, why: std::sync::Arc<str>) {
        self.emit(walker, self.by, End::Unknown(Unknown { rule: RuleId(rule), why }));
    }

    fn emit(&mut self, walker: Walker<NoTrace>, by: Option<u32>, end: End) {
        let Walker { share, effects, assumptions, .. } = walker;
        self.parts.push(Portion { by, share, end, effects, assumptions });
    }

    /// Adds a branch to others at the same place, and merges it with an equal one.
    fn put(&mut self, list: &mut Vec<Walker<NoTrace>>, mut walker: Walker<NoTrace>) {
        if self.entry.forgets_marks {
            walker.forget_marks();
        }
        match list.iter().position(|other| other.is_like(&walker)) {
            Some(at) => list[at].share = list[at].share.plus(walker.share),
            None if list.len() < MAX_ALIKE => list.push(walker),
            None => {
                let rule = self.by.unwrap_or_default();
                self.unknown(walker, rule, format!("more than {MAX_ALIKE} kinds of packets").into());
            }
        }
    }
}

fn add(led: &mut Vec<(u32, bool, Vec<Walker<NoTrace>>)>, chain: u32, comes_back: bool, walker: Walker<NoTrace>) {
    match led.last_mut().filter(|(to, back, _)| (*to, *back) == (chain, comes_back)) {
        Some((_, _, walkers)) => walkers.push(walker),
        None => led.push((chain, comes_back, vec![walker])),
    }
}
