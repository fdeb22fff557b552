//! The rules that a packet matched.

use std::fmt;
use std::sync::Arc;

use super::field::Field;
use super::forked_sources::ForkedSources;
use super::intervals::Intervals;
use super::share::Share;

/// A rule of a compiled program; [`Program::place`](super::Program::place) returns its [`Place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

/// A chain of a compiled program; [`Program::chain`](super::Program::chain) returns its table and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId(pub(crate) u32);

/// The place of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place<'a> {
    /// The table.
    pub table: &'a str,
    /// The chain.
    pub chain: &'a str,
    /// The position in the chain, from 1, as `iptables -L --line-numbers` counts.
    pub rule: usize,
}

/// A rule that a packet matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The rule, or the last one matched before a policy applied.
    pub rule: RuleId,
    /// The result of the rule.
    pub did: Evaluated,
    /// The packet's next step.
    pub then: Then,
}

impl Step {
    /// Creates a step for a rule that matched; [`Trace::then`] adds the next step.
    pub(crate) fn matched(rule: RuleId, did: Evaluated) -> Self {
        Self { rule, did, then: Then::Rule }
    }

    /// Returns whether the rule's result was random.
    pub fn is_by_chance(&self) -> bool {
        match self.did {
            Evaluated::Match(share) => share != Share::ONE,
            Evaluated::NotChosen(_) => true,
            Evaluated::Maybe | Evaluated::Stop => false,
        }
    }
}

/// The result of a rule for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluated {
    /// It matched and was executed; if it is random, it matched for this share.
    Match(Share),
    /// It is random and did not match, which is the case for this share.
    NotChosen(Share),
    /// It may have matched, depending on chance, a limit or something unknown; nothing that is modelled depends on it.
    Maybe,
    /// Its condition or effect is unknown.
    Stop,
}

/// The next step of a packet after a matched rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The next rule.
    Rule,
    /// Another chain, with return. If a map or a random choice has several, the one that the packet took.
    Jump(ChainId),
    /// Another chain, without return to this one.
    Goto(ChainId),
    /// Back to the calling chain, or to the policy.
    Return,
    /// Accepted: on to the next base chain of the hook.
    Accept,
    /// Nowhere.
    End,
}

/// An observer of a walk.
pub trait Trace: Clone {
    /// Called when a rule that affects the packet was evaluated. `step` is only called if the trace keeps steps.
    fn step(&mut self, step: impl FnOnce() -> Step);

    /// Called when the packet does not continue with the rule after the last such rule.
    fn then(&mut self, then: Then);

    /// Called when a field of the packet, or of its connection, is compared with numbers.
    fn asked(&self, _field: Field, _value: u128, _among: impl FnOnce() -> Intervals) {}

    /// Called when a field of the packet is looked up in a table of sorted, disjoint ranges.
    fn looked_up<'k>(&self, _field: Field, _value: u128, _keys: impl FnOnce() -> &'k [(u128, u128)]) {}

    /// Called when an interface name is compared, as a number.
    fn asked_name(&self, _name: u128, _fits: impl Fn(u128) -> bool) {}

    /// Sets whether comparisons may separate sources from now on, instead of removing their packets; never before the first random choice.
    fn may_fork(&mut self, _is_decided: bool) -> bool {
        false
    }

    /// Returns the sources that were forked off since the last call.
    fn take_forked(&mut self) -> Vec<ForkedSources> {
        Vec::new()
    }

    /// Returns the matched rules only, without a set of packets.
    #[must_use]
    fn alone(&self) -> Self {
        self.clone()
    }

    /// Returns whether comparisons with this value also matter for other packets of the set.
    fn is_open(&self, _field: Field, _value: u128) -> bool {
        false
    }
}

/// A trace that keeps nothing and costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    fn step(&mut self, _: impl FnOnce() -> Step) {}

    fn then(&mut self, _: Then) {}
}

/// A trace that keeps every rule that matched, may have matched, or did not match only because of chance. Branches share the common part of
/// their paths, so memory for a cascade of endpoints grows with the number of its rules, not its square.
#[derive(Clone, Default)]
pub struct Path(Option<Arc<Link>>);

/// A step and its predecessors.
#[derive(Clone)]
struct Link {
    step: Step,
    before: Path,
}

impl Path {
    /// Returns the matched rules, in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.backwards().map(|link| link.step).collect();
        steps.reverse();
        steps
    }

    /// Returns the last matched rule.
    pub fn last(&self) -> Option<Step> {
        self.0.as_ref().map(|link| link.step)
    }

    fn backwards(&self) -> impl Iterator<Item = &Arc<Link>> {
        std::iter::successors(self.0.as_ref(), |link| link.before.0.as_ref())
    }
}

impl Drop for Path {
    /// Drops link by link: recursion could overflow the stack on a long path.
    fn drop(&mut self) {
        let mut last = self.0.take();
        while let Some(mut link) = last.and_then(Arc::into_inner) {
            last = link.before.0.take();
        }
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        let (mut own, mut others) = (self.backwards(), other.backwards());
        loop {
            match (own.next(), others.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if Arc::ptr_eq(one, other) => return true,
                (Some(one), Some(other)) if one.step == other.step => {}
                _ => return false,
            }
        }
    }
}

impl Eq for Path {}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.steps()).finish()
    }
}

impl Trace for Path {
    fn step(&mut self, step: impl FnOnce() -> Step) {
        let before = std::mem::take(self);
        self.0 = Some(Arc::new(Link { step: step(), before }));
    }

    fn then(&mut self, then: Then) {
        if let Some(last) = &mut self.0 {
            Arc::make_mut(last).step.then = then;
        }
    }
}
