//! Inspection of rules without a packet: their effects, and the edges of their conditions.

use smallvec::smallvec;

use super::program::Code;
use crate::iptables::targets::Action;
use crate::walk::{Edges, Inspect, RuleEffect};

impl Inspect for Code {
    fn effect(&self, rule: u32) -> RuleEffect<'_> {
        match &self.rules[rule as usize].action {
            Action::Continue | Action::Maybe => RuleEffect::Passes,
            Action::Mark(_) | Action::Connmark(_) => RuleEffect::Marks,
            Action::Jump(chain) => RuleEffect::Leads(smallvec![*chain], true),
            Action::Goto(chain) => RuleEffect::Leads(smallvec![*chain], false),
            Action::Dnat(destination) => RuleEffect::Translates(std::slice::from_ref(destination)),
            Action::Return => RuleEffect::Returns,
            Action::Accept
            | Action::Drop
            | Action::Reject(_)
            | Action::Redirect(_)
            | Action::Snat(_)
            | Action::NoTrack
            | Action::Unknown(_) => RuleEffect::Ends,
        }
    }

    fn edges(&self, rule: u32, edges: &mut Edges) {
        let rule = &self.rules[rule as usize];
        self.conditions(rule).iter().for_each(|condition| condition.edges(edges));
    }
}
