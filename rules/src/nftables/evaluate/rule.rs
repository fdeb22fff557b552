//! Evaluation of a rule for a packet.

use super::program::Code;
use crate::nftables::Verdict;
use crate::nftables::numgen::Draws;
use crate::nftables::statements::Action;
use crate::walk::{
    self, Assumptions, Effect, Evaluated, Held, HookVerdict, Next, Pass, RuleId, Share, Step, Trace, Walker, stop,
};

impl walk::Code for Code {
    /// Evaluates the conditions of a rule and, if they hold, its statements up to one that ends it.
    fn evaluate_rule<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, rule: u32) -> Next {
        let mut why = None;
        let mut assumed = Assumptions::NONE;
        for condition in self.conditions(rule) {
            match condition.holds(walker, &self.sets, pass.environment) {
                Held::Yes => {}
                Held::No => return Next::Rule,
                Held::Assuming(more) => assumed = assumed.and(more),
                Held::Random(part, whole) => pass.split(walker, RuleId(rule), part, whole),
                Held::Unknown(reason) => why = why.or(Some(reason)),
            }
        }
        let actions = self.actions(rule);
        let chance = || actions.iter().map(Action::choices).fold(Share::ONE, |chance, of| chance.times(1, of));
        let mut is_met = false;
        for action in actions {
            let verdict = match action {
                Action::Lookup { key, map } => match self.sets[*map as usize].find(key, walker) {
                    Ok(None | Some(None)) => return Next::Rule,
                    Ok(Some(found)) => found,
                    Err(reason) => return stop(walker, rule, reason),
                },
                _ => None,
            };
            if let Some(why) = why {
                return stop(walker, rule, why);
            }
            if let Some((part, whole)) = action.matching(pass.counts()) {
                pass.split(walker, RuleId(rule), part, whole);
            }
            if !is_met {
                walker.assume(assumed);
                walker.trace.step(|| Step::matched(RuleId(rule), Evaluated::Match(chance())));
                is_met = true;
            }
            if let Some(next) = act(pass, walker, action, verdict, rule) {
                return next;
            }
        }
        if !is_met {
            let is_sure = why.is_none() && assumed == Assumptions::NONE;
            let did = if is_sure { Evaluated::Match(Share::ONE) } else { Evaluated::Maybe };
            walker.trace.step(|| Step::matched(RuleId(rule), did));
        }
        Next::Rule
    }
}

/// Executes a statement; returns the packet's next step if the statement ends the rule. `verdict` is the result of a lookup.
fn act<T: Trace>(
    pass: &mut Pass<'_, T>,
    walker: &mut Walker<T>,
    action: &Action,
    verdict: Option<Verdict<u32>>,
    rule: u32,
) -> Option<Next> {
    Some(match action {
        Action::Verdict(verdict) => verdict.next(rule),
        Action::Lookup { .. } => verdict?.next(rule),
        Action::Reject(rejection) => Next::end(HookVerdict::Reject(RuleId(rule), *rejection)),
        Action::Balance(verdicts) => share_out(pass, walker, (rule, verdicts), |_, verdict| verdict.next(rule)),
        Action::Dnat(destinations) => {
            share_out(pass, walker, (rule, destinations), |walker, to| match walker.dnat(to) {
                Ok(()) => Next::Accept,
                Err(why) => stop(walker, rule, why),
            })
        }
        Action::Snat(source) => {
            walker.snat(source);
            Next::Accept
        }
        Action::Mark { mask, value } => {
            walker.packet.mark = (walker.packet.mark & !mask) ^ value;
            return None;
        }
        Action::Remember(side, list) => {
            walker.effects.push(Effect::Add { list: list.clone(), address: side.of(&walker.packet) });
            return None;
        }
        Action::Unknown(why) => stop(walker, rule, why.clone()),
    })
}

/// Branches for each value of a map, with its share of the packets; the walk continues with the first.
fn share_out<T: Trace, C>(
    pass: &mut Pass<'_, T>,
    walker: &mut Walker<T>,
    (rule, choices): (u32, &Draws<C>),
    choose: impl Fn(&mut Walker<T>, &C) -> Next,
) -> Next {
    if choices.is_counter {
        walker.assume(Assumptions::COUNTER);
    }
    let mut drawn = choices.shares(pass.counts());
    let Some((first, own, whole)) = drawn.next() else { return Next::Rule };
    pass.divide(walker, rule);
    for (choice, share, _) in drawn.rev() {
        let mut part = walker.clone();
        pass.choose(&mut part, share, whole);
        let next = choose(&mut part, choice);
        pass.leave(part, next);
    }
    pass.choose(walker, own, whole);
    choose(walker, first)
}
