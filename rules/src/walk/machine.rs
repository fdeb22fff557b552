//! Takes a packet through the chains of a hook, whatever language their rules are written in.

use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::branch::{Branch, By, Outcome, Unknown};
use super::connection::Tracking;
use super::environment::Environment;
use super::hook::Hook;
use super::nesting::DEEPEST;
use super::packet::Packet;
use super::program::{Code, Program};
use super::share::Share;
use super::trace::{ChainId, Evaluated, RuleId, Step, Then, Trace};
use super::walker::Walker;

/// A stop on the way through a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The connection table is asked.
    Lookup,
    /// A chain that every packet meets.
    Chain {
        /// Its position.
        chain: u32,
        /// Whether a packet of the machine itself is routed again where the chain changes its mark.
        reroutes: bool,
    },
    /// A chain that the first packet of a connection meets, if no chain before bound a translation.
    Nat(u32),
    /// The packet is rewritten as its connection's translation says.
    Translation,
}

/// What a rule leads to.
pub(crate) enum Next {
    /// The rule behind it.
    Rule,
    /// Another chain, then back.
    Jump(u32),
    /// Another chain, then back to where this one was called.
    Goto(u32),
    /// Back to where this chain was called.
    Return,
    /// The next stop.
    Accept,
    /// Nothing more. In a box, so that what every rule leads to is handed on in two words.
    End(Box<Outcome>),
}

impl Next {
    /// Nothing more: the packet ends so.
    pub(crate) fn end(outcome: Outcome) -> Self {
        Self::End(Box::new(outcome))
    }

    /// Tells the walker's trace of it, where it is not the rule behind.
    fn tell<T: Trace>(&self, walker: &mut Walker<T>) {
        walker.trace.then(match self {
            Self::Rule => return,
            Self::Jump(chain) => Then::Jump(ChainId(*chain)),
            Self::Goto(chain) => Then::Goto(ChainId(*chain)),
            Self::Return => Then::Return,
            Self::Accept => Then::Accept,
            Self::End(_) => Then::End,
        });
    }
}

/// Where a packet is in the chains of a stop.
#[derive(Debug, Clone)]
struct Cursor {
    chain: u32,
    /// The rule that is next.
    rule: u32,
    /// Chains to come back to, with the rules to go on with.
    callers: ArrayVec<(u32, u32), DEEPEST>,
}

/// A packet that is yet to be taken to the end of the hook.
struct Work<T> {
    walker: Walker<T>,
    /// The position of the stop where it is.
    stop: usize,
    /// Where it is in the stop's chains, and what comes next; not yet in them where this is missing.
    place: Option<(Cursor, Next)>,
}

type Todo<T> = SmallVec<[Work<T>; 2]>;

/// Branches of a packet that are followed through a hook. Each endpoint of a Service is one; but where chance decides at one rule
/// after the other, their number doubles with each.
const MOST_BRANCHES: usize = 1 << 14;

/// Takes a packet through a hook; the branches are put behind those that are in `branches` already.
pub(crate) fn walk<C: Code, T: Trace>(
    program: &Program<C>,
    environment: &Environment,
    hook: Hook,
    packet: &Packet,
    tracking: Tracking,
    branches: &mut Vec<Branch<T>>,
) {
    let mut walker = Walker::new(packet, tracking);
    if packet.family() != program.family {
        // The kernel keeps the families apart: these rules never see the packet.
        walker.look_up();
        branches.push(walker.end(Outcome::Accept));
        return;
    }
    if hook.is_entry() {
        walker.forget_connection();
    }
    let mut todo = Todo::new();
    let most = branches.len() + MOST_BRANCHES;
    let mut next = Some(Work { walker, stop: 0, place: None });
    while let Some(work) = next {
        let branch = match &work.place {
            Some((cursor, _)) if branches.len() >= most => too_many(work.walker, cursor),
            _ => finish(program, environment, hook, work, &mut todo),
        };
        branches.push(branch);
        next = todo.pop();
    }
}

/// The end of what is left where there are too many branches: at the rule where it would go on by chance.
fn too_many<T: Trace>(walker: Walker<T>, at: &Cursor) -> Branch<T> {
    let why = format!("chance leaves more than {MOST_BRANCHES} ways open").into();
    walker.end(Outcome::Unknown(Unknown { rule: RuleId(at.rule.saturating_sub(1)), why }))
}

fn finish<C: Code, T: Trace>(
    program: &Program<C>,
    environment: &Environment,
    hook: Hook,
    mut work: Work<T>,
    todo: &mut Todo<T>,
) -> Branch<T> {
    let walker = &mut work.walker;
    for (position, stop) in program.stops[hook as usize].iter().enumerate().skip(work.stop) {
        let (chain, reroutes) = match *stop {
            Stop::Lookup => {
                walker.look_up();
                continue;
            }
            Stop::Translation => {
                walker.translate(hook);
                continue;
            }
            Stop::Nat(_) if work.place.is_none() && !walker.asks_nat(hook) => continue,
            Stop::Nat(chain) => (chain, false),
            Stop::Chain { chain, reroutes } => (chain, reroutes),
        };
        let (cursor, next) = work.place.take().unwrap_or_else(|| {
            walker.mark_before = walker.packet.mark;
            (Cursor { chain, rule: program.first_rule(chain), callers: ArrayVec::new() }, Next::Rule)
        });
        let mut pass = Pass { environment, hook, stop: position, cursor, todo, draws: Draws::Alike };
        if let Some(outcome) = pass.run(program, walker, next, chain) {
            return work.walker.end(outcome);
        }
        walker.reroute |= reroutes && hook == Hook::Output && walker.packet.mark != walker.mark_before;
    }
    work.walker.end(Outcome::Accept)
}

/// One way of a packet through the chains of one stop.
pub(crate) struct Pass<'a, T> {
    /// The machine's state.
    pub(crate) environment: &'a Environment,
    /// The hook.
    pub(crate) hook: Hook,
    stop: usize,
    cursor: Cursor,
    todo: &'a mut Todo<T>,
    draws: Draws,
}

/// How the numbers that a kernel draws fall to choices that are meant to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draws {
    /// To all alike.
    Alike,
    /// As 32 random bits, multiplied and cut, have it (`reciprocal_scale`): some choices have one draw of 2^32 more.
    Counted,
}

/// How many of 2^32 draws give one of so many numbers: those numbers r with r * n / 2^32 from i to i + 1.
pub(crate) fn draws_of(number: u32, of: u32) -> u64 {
    let start = |number: u64| (number << 32).div_ceil(u64::from(of.max(1)));
    start(u64::from(number) + 1) - start(u64::from(number))
}

/// Takes a packet through one rule alone, to all that the rule may lead it to. Numbers that rules draw have their exact shares here.
pub(super) fn meet_alone<C: Code, T: Trace>(
    code: &C,
    environment: &Environment,
    hook: Hook,
    mut walker: Walker<T>,
    rule: u32,
) -> impl Iterator<Item = (Walker<T>, Next)> {
    let mut todo = Todo::new();
    let cursor = Cursor { chain: 0, rule, callers: ArrayVec::new() };
    let mut pass = Pass { environment, hook, stop: 0, cursor, todo: &mut todo, draws: Draws::Counted };
    let next = code.meet(&mut pass, &mut walker, rule);
    // What is left last is taken up first.
    let others = todo.into_iter().rev().filter_map(|work| Some((work.walker, work.place?.1)));
    std::iter::once((walker, next)).chain(others)
}

impl<T: Trace> Pass<'_, T> {
    /// The part of the packets that one of several equal choices gets.
    pub(crate) fn choice(&self, number: u32, of: u32) -> (u32, u64) {
        match self.draws {
            Draws::Counted if of > 1 => (draws_of(number, of) as u32, 1 << 32),
            Draws::Counted | Draws::Alike => (1, u64::from(of.max(1))),
        }
    }

    /// Goes from rule to rule to the end of a hook's chain; returns how the packet ends if it does not go on.
    fn run<C: Code>(
        &mut self,
        program: &Program<C>,
        walker: &mut Walker<T>,
        mut next: Next,
        entry: u32,
    ) -> Option<Outcome> {
        loop {
            match next {
                Next::Rule => {}
                Next::Accept => return None,
                Next::End(outcome) => return Some(*outcome),
                Next::Return => match self.cursor.callers.pop() {
                    Some(caller) => (self.cursor.chain, self.cursor.rule) = caller,
                    None => return program.span(entry).drops.then_some(Outcome::Drop(By::Policy(ChainId(entry)))),
                },
                Next::Jump(chain) => {
                    self.cursor.callers.push((self.cursor.chain, self.cursor.rule));
                    (self.cursor.chain, self.cursor.rule) = (chain, program.first_rule(chain));
                }
                Next::Goto(chain) => (self.cursor.chain, self.cursor.rule) = (chain, program.first_rule(chain)),
            }
            next = match program.code.next_rule(program.span(self.cursor.chain), self.cursor.rule, walker) {
                None => Next::Return,
                Some(rule) => {
                    self.cursor.rule = rule + 1;
                    let next = program.code.meet(self, walker, rule);
                    next.tell(walker);
                    next
                }
            };
        }
    }

    /// Goes on with the part of the packets for which a condition of a rule holds by chance; leaves the others, which do not
    /// meet the rule, for later.
    pub(crate) fn split(&mut self, walker: &mut Walker<T>, rule: RuleId, part: u32, whole: u64) {
        let rest = whole as u32 - part;
        let mut missed = walker.clone();
        missed.share = missed.share.times(rest, whole);
        missed.trace.step(|| Step::met(rule, Evaluated::PassByChance(Share::ONE.times(rest, whole))));
        self.leave(missed, Next::Rule);
        walker.share = walker.share.times(part, whole);
    }

    /// Leaves a part of the packets for later, for which the present rule leads to something else than for the others. What
    /// is left last is taken up first.
    pub(crate) fn leave(&mut self, mut walker: Walker<T>, next: Next) {
        next.tell(&mut walker);
        self.todo.push(Work { walker, stop: self.stop, place: Some((self.cursor.clone(), next)) });
    }
}

/// Ends a packet's way at a rule of which nobody can say what it does.
pub(crate) fn stop<T: Trace>(walker: &mut Walker<T>, rule: u32, why: Arc<str>) -> Next {
    let rule = RuleId(rule);
    walker.trace.step(|| Step::met(rule, Evaluated::Stop));
    Next::end(Outcome::Unknown(Unknown { rule, why }))
}
