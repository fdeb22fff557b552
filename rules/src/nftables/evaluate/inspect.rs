//! Inspection of rules without a packet: their effects, and the edges of their conditions.

use smallvec::SmallVec;

use super::program::Code;
use crate::nftables::Verdict;
use crate::nftables::statements::Action;
use crate::walk::{Edges, Inspect, RuleEffect};

impl Inspect for Code {
    fn effect(&self, rule: u32) -> RuleEffect<'_> {
        let mut effect = RuleEffect::Passes;
        for action in self.actions(rule) {
            effect = match action {
                Action::Remember(..) => continue,
                Action::Mark { .. } => RuleEffect::Marks,
                Action::Verdict(verdict) => leads(std::iter::once(*verdict)),
                Action::Balance(verdicts) => leads(verdicts.iter().copied()),
                Action::Lookup { map, .. } => leads(self.sets[*map as usize].verdicts()),
                Action::Dnat(destinations) => RuleEffect::Translates(destinations),
                Action::Reject(_) | Action::Snat(_) | Action::Unknown(_) => RuleEffect::Ends,
            };
        }
        effect
    }

    fn edges(&self, rule: u32, edges: &mut Edges) {
        for condition in self.conditions(rule) {
            condition.edges(&self.sets, edges);
        }
        for action in self.actions(rule) {
            if let Action::Lookup { key, map } = action {
                self.sets[*map as usize].edges(key, edges);
            }
        }
    }
}

/// Returns the effect of a rule with one of several verdicts.
fn leads(verdicts: impl Iterator<Item = Verdict<u32>>) -> RuleEffect<'static> {
    let (mut chains, mut returns, mut decides, mut comes_back) = (SmallVec::new(), false, false, true);
    for verdict in verdicts {
        match verdict {
            Verdict::Jump(chain) => chains.push(chain),
            Verdict::Goto(chain) => {
                chains.push(chain);
                comes_back = false;
            }
            Verdict::Return => returns = true,
            Verdict::Accept | Verdict::Drop => decides = true,
        }
    }
    match (chains.is_empty(), returns, decides) {
        (true, true, false) => RuleEffect::Returns,
        (true, ..) => RuleEffect::Ends,
        (false, false, false) => RuleEffect::Leads(chains, comes_back),
        (false, ..) => RuleEffect::Divides(chains),
    }
}
