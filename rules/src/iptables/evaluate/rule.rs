//! Evaluation of a rule for a packet.

use std::sync::Arc;

use super::program::Code;
use crate::iptables::targets::{Action, mark_packet};
use crate::walk::{
    self, Assumptions, By, Destination, Evaluated, Held, HookVerdict, Next, Pass, RuleId, Share, Span, Step, Trace,
    Walker, stop,
};

impl walk::Code for Code {
    fn next_rule<T: Trace>(&self, span: Span, from: u32, walker: &Walker<T>) -> Option<u32> {
        match span.index {
            None => (from < span.end).then_some(from),
            Some(index) => self.indexes[index as usize].next_for(from, walker),
        }
    }

    /// Evaluates the conditions of a rule and, if they hold, its target.
    fn evaluate_rule<T: Trace>(&self, pass: &mut Pass<'_, T>, walker: &mut Walker<T>, position: u32) -> Next {
        let rule = &self.rules[position as usize];
        let id = RuleId(position);
        let mut why = None;
        let mut matters = !rule.action.is_inert();
        let mut assumed = Assumptions::NONE;
        let mut chance = Share::ONE;
        for condition in self.conditions(rule) {
            if condition.has_effect() {
                if why.is_some() {
                    // Whether the effect takes place depends on an unknown condition.
                    matters = true;
                    break;
                }
                walker.assume(assumed);
            }
            match condition.holds(walker, pass.environment) {
                Held::Yes => {}
                Held::No => return Next::Rule,
                Held::Assuming(more) => assumed = assumed.and(more),
                Held::Random(part, whole) => {
                    walker.assume(assumed);
                    pass.split(walker, id, part, whole);
                    chance = chance.times(part, whole);
                }
                Held::Unknown(reason) => why = why.or(Some(reason)),
            }
        }
        walker.assume(assumed);
        match why {
            Some(why) if matters => stop(walker, position, why),
            why => {
                let is_sure = why.is_none() && !matches!(rule.action, Action::Maybe);
                let did = if is_sure { Evaluated::Match(chance) } else { Evaluated::Maybe };
                walker.trace.step(|| Step::matched(id, did));
                act(pass, walker, &rule.action, position)
            }
        }
    }
}

fn act<T: Trace>(pass: &Pass<'_, T>, walker: &mut Walker<T>, action: &Action, rule: u32) -> Next {
    let translated: Result<(), Arc<str>> = match action {
        Action::Continue | Action::Maybe => return Next::Rule,
        Action::Accept => return Next::Accept,
        Action::Drop => return Next::end(HookVerdict::Drop(By::Rule(RuleId(rule)))),
        Action::Reject(rejection) => return Next::end(HookVerdict::Reject(RuleId(rule), *rejection)),
        Action::Return => return Next::Return,
        Action::Jump(chain) => return Next::Jump(*chain),
        Action::Goto(chain) => return Next::Goto(*chain),
        Action::Mark(change) => {
            mark_packet(walker, *change);
            return Next::Rule;
        }
        Action::Connmark(change) => {
            change.apply(walker);
            return Next::Rule;
        }
        Action::NoTrack => {
            walker.exempt();
            return Next::Rule;
        }
        Action::Unknown(why) => Err(why.clone()),
        Action::Dnat(destination) => walker.dnat(destination),
        Action::Redirect(destination) => match walker.own_address(pass.hook, pass.environment) {
            Some(address) => walker.dnat(&Destination { address: Some(address), ..destination.clone() }),
            // `nf_nat_redirect_ipv4`: an interface without an address.
            None => return Next::end(HookVerdict::Drop(By::Rule(RuleId(rule)))),
        },
        Action::Snat(source) => {
            walker.snat(source);
            Ok(())
        }
    };
    match translated {
        Ok(()) => Next::Accept,
        Err(why) => stop(walker, rule, why),
    }
}
