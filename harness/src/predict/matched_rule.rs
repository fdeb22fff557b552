//! The rules that a packet met, whatever language they are in.

use std::fmt;
use std::sync::Arc;

use svclab_rules::ruleset::Rule;
use svclab_rules::walk::{Evaluated, Hook, Packet, Step};

use super::{Cause, Network, PredictedBranch, PredictedOutcome, PredictedReply, RulePlace, Stage};

/// A rule that a packet met.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatchedRule<'n> {
    /// Where it stands.
    pub place: RulePlace,
    /// What happened.
    pub did: Evaluated,
    /// Where the packet went from there.
    pub next_hook: NextHook<'n>,
    /// The rule.
    pub rule: Rule<'n>,
    /// The packet as it came to the hook.
    pub packet: Packet,
}

/// Where a packet goes from a rule that it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextHook<'n> {
    /// To the rule behind it.
    Rule,
    /// Through another chain, and back.
    Jump {
        /// The chain.
        chain: &'n str,
        /// How many rules it has.
        of: usize,
    },
    /// On with another chain, and not back to this one.
    Goto {
        /// The chain.
        chain: &'n str,
        /// How many rules it has.
        of: usize,
    },
    /// Back to where the chain was called, or to the policy.
    Return,
    /// Out of all chains, to what the hook has next.
    Accept,
    /// Nowhere.
    End,
}

impl<'n> NextHook<'n> {
    /// The chain that it leads to.
    pub(crate) fn chain(self) -> Option<&'n str> {
        match self {
            Self::Jump { chain, .. } | Self::Goto { chain, .. } => Some(chain),
            Self::Rule | Self::Return | Self::Accept | Self::End => None,
        }
    }

    /// Whether no more rules of these chains are asked.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Accept | Self::End)
    }
}

/// A rule that decided about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decisive {
    /// The hook.
    pub hook: Hook,
    /// Where it stands.
    pub place: RulePlace,
    /// Whether it takes every packet to one other chain, so that it says nothing of this one.
    pub only_leads: bool,
}

impl fmt::Display for Decisive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hook, place, .. } = self;
        write!(f, "{}  {hook} {}  {}", place.netns, place.table, place.text)
    }
}

impl Network<'_> {
    /// The rules that a packet met at a hook, in order: those that matched, may have matched, or that chance alone kept from
    /// matching.
    pub(crate) fn met(&self, stage: &Stage) -> Vec<MatchedRule<'_>> {
        let Some(rules) = self.machines[stage.netns].rules(stage.family) else { return Vec::new() };
        let netns = &self.topology.namespaces[stage.netns].name;
        let meet = |step: &Step| {
            let (place, rule) = rules.rule(netns, step.rule)?;
            Some(MatchedRule { place, did: step.did, next_hook: rules.next_hook(step.then), rule, packet: stage.came })
        };
        stage.path.steps().iter().filter_map(meet).collect()
    }

    /// Whether rules of others than kube-proxy made of a packet what became of it: they dropped or rejected it, are not modelled, or gave
    /// it another destination.
    pub(crate) fn is_of_others(&self, branch: &PredictedBranch) -> bool {
        let is_others = |place: &RulePlace| !place.chain.starts_with("KUBE-") && place.table != "kube-proxy";
        match &branch.outcome {
            PredictedOutcome::Dropped { cause: Cause::Rule(place), .. }
            | PredictedOutcome::Rejected { cause: Cause::Rule(place), .. }
            | PredictedOutcome::Unknown { rule: place, .. }
            | PredictedOutcome::Delivered { reply: PredictedReply::Unknown(place), .. } => is_others(place),
            PredictedOutcome::Dropped { cause: Cause::Policy { table, .. }, .. } => table != "kube-proxy",
            PredictedOutcome::Delivered { reply: PredictedReply::Lost { cause: Cause::Rule(place), .. }, .. } => {
                is_others(place)
            }
            _ => {
                let is_translated = |stage: &&Arc<Stage>| stage.came.destination != stage.left.destination;
                let translated = branch.stages.iter().filter(is_translated);
                translated.filter_map(|stage| self.met(stage).pop()).any(|rule| is_others(&rule.place))
            }
        }
    }

    /// The rules that did something to a packet on its way, and the jumps that led to them. Jumps into chains that had
    /// nothing for the packet are left out.
    pub(crate) fn rules_met(&self, stages: &[Arc<Stage>]) -> Vec<Decisive> {
        let mut met = Vec::new();
        for stage in stages {
            let mut led_to: Vec<Decisive> = Vec::new();
            for one in self.met(stage).into_iter().rev() {
                let is_met = matches!(one.did, Evaluated::Match(_) | Evaluated::Stop);
                let leads = led_to.last().is_some_and(|next| one.next_hook.chain() == Some(next.place.chain.as_str()));
                if is_met && (leads || one.next_hook.is_end() || one.rule.has_effect()) {
                    led_to.push(Decisive { hook: stage.hook, only_leads: one.rule.only_jumps(), place: one.place });
                }
            }
            met.extend(led_to.into_iter().rev());
        }
        met
    }
}
