//! A packet in the chains of one stop of a hook: where it is, and the branches left for later.

use std::sync::Arc;

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::branch::{HookVerdict, Unknown};
use super::environment::Environment;
use super::hook::Hook;
use super::jump_depth::DEEPEST;
use super::separate_sources::Apart;
use super::share::Share;
use super::trace::{ChainId, Evaluated, RuleId, Step, Then, Trace};
use super::walker::Walker;

/// What a rule leads to.
#[derive(Debug, Clone)]
pub(crate) enum Next {
    /// The rule after it.
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
    End(Box<HookVerdict>),
}

impl Next {
    /// Nothing more: the packet ends so.
    pub(crate) fn end(outcome: HookVerdict) -> Self {
        Self::End(Box::new(outcome))
    }

    /// Records it in the walker's trace, where it is not the next rule.
    pub(super) fn record<T: Trace>(&self, walker: &mut Walker<T>) {
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
pub(crate) struct Cursor {
    pub(super) chain: u32,
    /// The rule that is next.
    pub(super) rule: u32,
    /// Chains to come back to, with the rules to go on with.
    pub(super) callers: ArrayVec<(u32, u32), DEEPEST>,
}

/// A packet that is yet to be taken to the end of the hook.
#[derive(Debug, Clone)]
pub(crate) struct Work<T> {
    pub(super) walker: Walker<T>,
    /// The position of the stop where it is.
    pub(super) stop: usize,
    /// Where it is in the stop's chains, and what comes next; not yet in them where this is missing.
    pub(super) place: Option<(Cursor, Next)>,
}

/// A place in a hook at which sources were set apart: before the rule that matched.
#[derive(Debug, Clone)]
pub struct Fork<T> {
    /// Which.
    pub apart: Apart,
    pub(super) work: Work<T>,
}

/// The branches of a packet that are left for later.
#[derive(Debug)]
pub(super) struct Todo<T> {
    /// What is left last is taken up first.
    works: SmallVec<[Work<T>; 2]>,
    /// How many branches a rule has divided by chance that were chosen by chance before.
    divided: FxHashMap<RuleId, usize>,
    /// Whether that were too many for one of them.
    pub(super) is_doubling: bool,
}

/// How many branches that differ are followed through one random rule. A cascade of endpoints is passed by one branch, and each random
/// rule before it doubles them.
pub(super) const MAX_ALIKE: usize = 64;

impl<T> Todo<T> {
    pub(super) fn new() -> Self {
        Self { works: SmallVec::new(), divided: FxHashMap::default(), is_doubling: false }
    }

    /// The branch to go on with.
    pub(super) fn pop(&mut self) -> Option<Work<T>> {
        self.works.pop()
    }

    /// The branch that most packets take.
    pub(super) fn pop_likeliest(&mut self) -> Option<Work<T>> {
        let shares = self.works.iter().map(|work| work.walker.share.to_f64());
        let (at, _) = shares.enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some(self.works.remove(at))
    }

    /// Notes that a rule divides a branch by chance.
    fn divide(&mut self, walker: &Walker<T>, rule: RuleId) {
        if walker.is_drawn {
            let divided = self.divided.entry(rule).or_default();
            *divided += 1;
            self.is_doubling |= *divided > MAX_ALIKE;
        }
    }
}

/// One way of a packet through the chains of one stop.
pub(crate) struct Pass<'a, T> {
    /// The machine's state.
    pub(crate) environment: &'a Environment,
    /// The hook.
    pub(crate) hook: Hook,
    pub(super) stop: usize,
    pub(super) cursor: Cursor,
    pub(super) todo: &'a mut Todo<T>,
    /// Where sources were set apart.
    pub(super) forks: &'a mut Vec<Fork<T>>,
    pub(super) draws: Draws,
}

/// How the numbers that a kernel draws fall to choices that are meant to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draws {
    /// Every choice is equally likely.
    Alike,
    /// As `reciprocal_scale` maps 32 random bits: some choices have one draw of 2^32 more.
    Counted,
}

impl<T: Trace> Pass<'_, T> {
    /// Whether the kernel's draws are counted, instead of taking all numbers for alike.
    pub(crate) fn counts(&self) -> bool {
        self.draws == Draws::Counted
    }

    /// Goes on with the part of the packets for which a condition of a rule holds by chance; leaves the others, which do not
    /// match the rule, for later.
    pub(crate) fn split(&mut self, walker: &mut Walker<T>, rule: RuleId, part: u32, whole: u64) {
        let rest = (whole - u64::from(part)) as u32;
        self.todo.divide(walker, rule);
        let mut missed = walker.clone();
        missed.share = missed.share.times(rest, whole);
        missed.trace.step(|| Step::matched(rule, Evaluated::NotChosen(Share::ONE.times(rest, whole))));
        self.leave(missed, Next::Rule);
        self.choose(walker, part, whole);
    }

    /// Divides a packet into the parts that a rule leads to different places by chance: each is [chosen](Self::choose).
    pub(crate) fn divide(&mut self, walker: &Walker<T>, rule: u32) {
        self.todo.divide(walker, RuleId(rule));
    }

    /// Goes on with a part of the packets that chance chooses.
    pub(crate) fn choose(&self, walker: &mut Walker<T>, part: u32, whole: u64) {
        walker.share = walker.share.times(part, whole);
        walker.is_drawn = true;
    }

    /// Leaves a part of the packets for later, for which the present rule leads to something else than for the others. What
    /// is left last is taken up first.
    pub(crate) fn leave(&mut self, mut walker: Walker<T>, next: Next) {
        next.record(&mut walker);
        self.todo.works.push(Work { walker, stop: self.stop, place: Some((self.cursor.clone(), next)) });
    }
}

/// Ends a packet's walk at a rule whose effect is unknown.
pub(crate) fn stop<T: Trace>(walker: &mut Walker<T>, rule: u32, why: Arc<str>) -> Next {
    let rule = RuleId(rule);
    walker.trace.step(|| Step::matched(rule, Evaluated::Stop));
    Next::end(HookVerdict::Unknown(Unknown { rule, why }))
}
