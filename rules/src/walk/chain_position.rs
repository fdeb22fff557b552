//! The position of a packet in the chains of one stop of a hook, and its pending branches.

use std::sync::Arc;

use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::branch::{HookVerdict, Unknown};
use super::environment::Environment;
use super::forked_sources::ForkedSources;
use super::hook::Hook;
use super::jump_limits::DEEPEST;
use super::share::Share;
use super::trace::{ChainId, Evaluated, RuleId, Step, Then, Trace};
use super::walker::Walker;

/// The next step after a rule.
#[derive(Debug, Clone)]
pub(crate) enum Next {
    /// The rule after it.
    Rule,
    /// Another chain, then back here.
    Jump(u32),
    /// Another chain, then back to the caller of this one.
    Goto(u32),
    /// Back to the caller of this chain.
    Return,
    /// On to the next stop.
    Accept,
    /// The end of the walk. Boxed, so that the type stays two words large.
    End(Box<HookVerdict>),
}

impl Next {
    /// Ends the walk with this verdict.
    pub(crate) fn end(outcome: HookVerdict) -> Self {
        Self::End(Box::new(outcome))
    }

    /// Records it in the walker's trace, unless it is the next rule.
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

/// The position of a packet in the chains of a stop.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    pub(super) chain: u32,
    /// The next rule.
    pub(super) rule: u32,
    /// The call stack: chains to return to, with their next rules.
    pub(super) callers: ArrayVec<(u32, u32), DEEPEST>,
}

/// A pending branch of a packet.
#[derive(Debug, Clone)]
pub(crate) struct Work<T> {
    pub(super) walker: Walker<T>,
    /// The position of its stop.
    pub(super) stop: usize,
    /// Its position in the stop's chains and the next step; `None` before it enters them.
    pub(super) place: Option<(Cursor, Next)>,
}

/// A place in a hook at which sources were forked off: before the rule that matched.
#[derive(Debug, Clone)]
pub struct Fork<T> {
    /// The forked sources.
    pub forked: ForkedSources,
    pub(super) work: Work<T>,
}

/// The pending branches of a packet.
#[derive(Debug)]
pub(super) struct Todo<T> {
    /// A stack: the branch added last is followed first.
    works: SmallVec<[Work<T>; 2]>,
    /// For each rule, the number of branches it split at random that were already chosen at random.
    divided: FxHashMap<RuleId, usize>,
    /// Whether that number exceeded the limit for a rule.
    pub(super) is_doubling: bool,
    /// The number of rules with which all branches together may still be compared.
    left: usize,
}

/// Maximum number of rules that the branches of a packet are compared with at one hook. Rules that cannot match because of their addresses
/// or ports do not count.
const MAX_COMPARED: usize = 1 << 21;

/// Maximum number of different branches that are followed through one random rule. Normally one branch passes a cascade of endpoints; each
/// random rule before it doubles that number.
pub(super) const MAX_ALIKE: usize = 64;

impl<T> Todo<T> {
    pub(super) fn new() -> Self {
        Self { works: SmallVec::new(), divided: FxHashMap::default(), is_doubling: false, left: MAX_COMPARED }
    }

    /// Takes the next branch.
    pub(super) fn pop(&mut self) -> Option<Work<T>> {
        self.works.pop()
    }

    /// Takes the branch that most packets take.
    pub(super) fn pop_likeliest(&mut self) -> Option<Work<T>> {
        let shares = self.works.iter().map(|work| work.walker.share.to_f64());
        let (at, _) = shares.enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        Some(self.works.remove(at))
    }

    /// Counts a rule that a packet is compared with. Returns an error once there are too many.
    pub(super) fn count_rule(&mut self) -> Result<(), Arc<str>> {
        let too_many = || Arc::from(format!("a packet meets more than {MAX_COMPARED} rules at this hook"));
        self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        Ok(())
    }

    /// Records that a rule splits a branch at random.
    fn divide(&mut self, walker: &Walker<T>, rule: RuleId) {
        if walker.is_chosen_at_random {
            let divided = self.divided.entry(rule).or_default();
            *divided += 1;
            self.is_doubling |= *divided > MAX_ALIKE;
        }
    }
}

/// One branch of a packet through the chains of one stop.
pub(crate) struct Pass<'a, T> {
    /// The machine's state.
    pub(crate) environment: &'a Environment,
    /// The hook.
    pub(crate) hook: Hook,
    pub(super) stop: usize,
    pub(super) cursor: Cursor,
    pub(super) todo: &'a mut Todo<T>,
    /// The places where sources were forked off.
    pub(super) forks: &'a mut Vec<Fork<T>>,
    pub(super) draws: Draws,
}

/// The probabilities of choices that are meant to be equal, by the kernel's random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draws {
    /// Every choice is equally likely.
    Alike,
    /// As `reciprocal_scale` maps 32 random bits: some choices have one draw of 2^32 more.
    Counted,
}

impl<T: Trace> Pass<'_, T> {
    /// Returns whether the kernel's draws are counted exactly, instead of treating all numbers as equally likely.
    pub(crate) fn counts(&self) -> bool {
        self.draws == Draws::Counted
    }

    /// Continues with the share of packets for which a random condition holds; the others, which do not match the rule, become a pending
    /// branch.
    pub(crate) fn split(&mut self, walker: &mut Walker<T>, rule: RuleId, part: u32, whole: u64) {
        let rest = (whole - u64::from(part)) as u32;
        self.todo.divide(walker, rule);
        let mut missed = walker.clone();
        missed.share = missed.share.times(rest, whole);
        missed.trace.step(|| Step::matched(rule, Evaluated::NotChosen(Share::ONE.times(rest, whole))));
        self.leave(missed, Next::Rule);
        self.choose(walker, part, whole);
    }

    /// Splits a packet into the branches of a random rule: each is [chosen](Self::choose).
    pub(crate) fn divide(&mut self, walker: &Walker<T>, rule: u32) {
        self.todo.divide(walker, RuleId(rule));
    }

    /// Continues with a randomly chosen share of the packets.
    pub(crate) fn choose(&self, walker: &mut Walker<T>, part: u32, whole: u64) {
        walker.share = walker.share.times(part, whole);
        walker.is_chosen_at_random = true;
    }

    /// Adds a pending branch, for which the current rule has a different next step. The branch added last is followed first.
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
