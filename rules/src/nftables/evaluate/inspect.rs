//! The effects of rules and the edges of their conditions, without a packet.

use smallvec::SmallVec;

use super::action::{Action, Verdict};
use super::condition::Condition;
use super::program::Code;
use crate::nftables::{LookupKey, Side};
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
            self.of_condition(condition, edges);
        }
        for action in self.actions(rule) {
            if let Action::Lookup { key, map } = action {
                self.of_key(key, *map, edges);
            }
        }
    }
}

/// Where a rule leads to that has one of several verdicts.
fn leads(verdicts: impl Iterator<Item = Verdict>) -> RuleEffect<'static> {
    let (mut chains, mut returns, mut comes_back) = (SmallVec::new(), false, true);
    for verdict in verdicts {
        match verdict {
            Verdict::Jump(chain) => chains.push(chain),
            Verdict::Goto(chain) => {
                chains.push(chain);
                comes_back = false;
            }
            Verdict::Return => returns = true,
            Verdict::Accept | Verdict::Drop => return RuleEffect::Ends,
        }
    }
    match (chains.is_empty(), returns) {
        (true, true) => RuleEffect::Returns,
        (false, false) => RuleEffect::Leads(chains, comes_back),
        _ => RuleEffect::Ends,
    }
}

impl Code {
    fn of_condition(&self, condition: &Condition, edges: &mut Edges) {
        match condition {
            Condition::Between { side, ranges, .. } => {
                let values = edges.addresses(*side == Side::Source);
                ranges.iter().for_each(|(first, last)| Edges::between(values, *first, *last));
            }
            Condition::Protocols { numbers, .. } => edges.protocols.extend(numbers),
            Condition::Ports { protocol, side, ports, .. } => {
                edges.protocols.extend(protocol);
                let values = edges.ports_of(*side == Side::Source);
                ports.iter().for_each(|range| Edges::ports(values, *range.start(), *range.end()));
            }
            Condition::Interface { output, names, .. } => {
                let values = if *output { &mut edges.outputs } else { &mut edges.inputs };
                values.extend(names.iter().map(|(_, name)| *name));
            }
            Condition::Local(Side::Source) => edges.local_source = true,
            Condition::Local(Side::Destination) => edges.local_destination = true,
            Condition::Mark { mask, value, .. } => edges.mark(*value, *mask),
            Condition::InSet { key, set, .. } => self.of_key(key, *set, edges),
            // The same for the first packets of all connections, or not known for any.
            Condition::State { .. } | Condition::Translated | Condition::Always(_) | Condition::Unknown(_) => {}
        }
    }

    /// A lookup in a set: what rules put into it is history; what else is in it are edges where it is asked for addresses.
    fn of_key(&self, key: &[LookupKey], set: u32, edges: &mut Edges) {
        let set = &self.sets[set as usize];
        match key {
            _ if set.timeout.is_some() => edges.history = true,
            [LookupKey::Address(side)] => {
                let values = edges.addresses(*side == Side::Source);
                set.addresses().for_each(|(first, last)| Edges::between(values, first, last));
            }
            _ => edges.history = true,
        }
    }
}
