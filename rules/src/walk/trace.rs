//! The rules that a packet matched.

use std::fmt;
use std::sync::Arc;

use super::field::Field;
use super::intervals::Intervals;
use super::separate_sources::Apart;
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
    /// What happened.
    pub did: Evaluated,
    /// Where the packet went from there.
    pub then: Then,
}

impl Step {
    /// A rule that matched; [`Trace::then`] adds where the packet goes.
    pub(crate) fn matched(rule: RuleId, did: Evaluated) -> Self {
        Self { rule, did, then: Then::Rule }
    }

    /// Whether chance decided about the rule.
    pub fn is_by_chance(&self) -> bool {
        match self.did {
            Evaluated::Match(share) => share != Share::ONE,
            Evaluated::NotChosen(_) => true,
            Evaluated::Maybe | Evaluated::Stop => false,
        }
    }
}

/// What a rule did to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluated {
    /// It matched and was carried out; if it is random, it held for this share.
    Match(Share),
    /// Only chance kept it from matching, as it does for this share.
    NotChosen(Share),
    /// It may have matched: chance, a limit or what is not known decides, and nothing that is modelled depends on it.
    Maybe,
    /// What it compares or does is not known.
    Stop,
}

/// Where a packet goes from a rule that it matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// To the rule after it.
    Rule,
    /// Through another chain, and back. Where a map or chance has several, this is the one that the packet went through.
    Jump(ChainId),
    /// On with another chain, and not back to this one.
    Goto(ChainId),
    /// Back to where the chain was called, or to the policy.
    Return,
    /// Out of this chain of the hook and all that called it, to the next that the hook has.
    Accept,
    /// Nowhere.
    End,
}

/// Something that listens to a walk.
pub trait Trace: Clone {
    /// A rule that matters for the packet was evaluated. `step` is only called where it is kept.
    fn step(&mut self, step: impl FnOnce() -> Step);

    /// From the last such rule the packet goes elsewhere than to the one after it.
    fn then(&mut self, then: Then);

    /// A number of the packet, or of its connection, is compared with others.
    fn asked(&self, _field: Field, _value: u128, _among: impl FnOnce() -> Intervals) {}

    /// A number of the packet is looked up in a table: sorted, disjoint ranges.
    fn looked_up<'k>(&self, _field: Field, _value: u128, _keys: impl FnOnce() -> &'k [(u128, u128)]) {}

    /// The name of an interface is compared, as a number.
    fn asked_name(&self, _name: u128, _fits: impl Fn(u128) -> bool) {}

    /// Whether questions may set sources apart from now on, instead of leaving their packets for later; never before chance has decided.
    fn may_set_apart(&mut self, _is_decided: bool) -> bool {
        false
    }

    /// The sources that were set apart since the last call.
    fn set_apart(&mut self) -> Vec<Apart> {
        Vec::new()
    }

    /// The matched rules alone, without a set of packets.
    #[must_use]
    fn alone(&self) -> Self {
        self.clone()
    }

    /// Whether comparisons with this number of a packet are needed for others as well.
    fn is_open(&self, _field: Field, _value: u128) -> bool {
        false
    }
}

/// Keeps nothing, and costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    fn step(&mut self, _: impl FnOnce() -> Step) {}

    fn then(&mut self, _: Then) {}
}

/// Keeps every rule that matched, may have matched, or that only chance kept from matching. Branches of a walk share the part of their
/// paths that they have in common, so what a cascade of endpoints keeps grows with its rules, not with their square.
#[derive(Clone, Default)]
pub struct Path(Option<Arc<Link>>);

/// A step with those before it.
#[derive(Clone)]
struct Link {
    step: Step,
    before: Path,
}

impl Path {
    /// The matched rules, in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.backwards().map(|link| link.step).collect();
        steps.reverse();
        steps
    }

    /// The last matched rule.
    pub fn last(&self) -> Option<Step> {
        self.0.as_ref().map(|link| link.step)
    }

    fn backwards(&self) -> impl Iterator<Item = &Arc<Link>> {
        std::iter::successors(self.0.as_ref(), |link| link.before.0.as_ref())
    }
}

impl Drop for Path {
    /// Link by link: a path may be longer than a stack is deep.
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
