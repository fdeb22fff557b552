//! The rules that a packet matched, in either language.

use std::fmt;
use std::sync::Arc;

use svclab_rules::ruleset::Rule;
use svclab_rules::walk::{Evaluated, Hook, Packet, RuleId, Step, Then};

use super::{Cause, Network, PredictedBranch, PredictedOutcome, PredictedReply, RulePlace, Stage};

/// A rule that a packet matched, or may have matched.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MatchedRule<'n> {
    /// Its place.
    pub place: RulePlace,
    /// The result of its evaluation.
    pub did: Evaluated,
    /// Where the packet continued.
    pub next_hook: RuleExit<'n>,
    /// The rule.
    pub rule: Rule<'n>,
    /// The packet as it arrived at the hook.
    pub packet: Packet,
}

/// Where a packet continues after a rule that it matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleExit<'n> {
    /// At the next rule.
    Rule,
    /// Through another chain, and then back.
    Jump {
        /// The chain.
        chain: &'n str,
        /// The number of rules in it.
        of: usize,
    },
    /// In another chain, without returning to this one.
    Goto {
        /// The chain.
        chain: &'n str,
        /// The number of rules in it.
        of: usize,
    },
    /// Back in the calling chain, or at the policy.
    Return,
    /// After all chains, at the hook's next base chain.
    Accept,
    /// Nowhere.
    End,
}

impl RuleExit<'_> {
    /// Whether no more rules of these chains are evaluated.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Accept | Self::End)
    }
}

/// A rule, or the policy of a chain, that decided about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decisive {
    /// The namespace.
    pub netns: String,
    /// The hook.
    pub hook: Hook,
    /// The table.
    pub table: String,
    /// The rule as text, or the policy.
    pub text: String,
    /// Whether it only jumps to another chain and has no effect of its own.
    pub only_leads: bool,
}

impl fmt::Display for Decisive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { netns, hook, table, text, .. } = self;
        write!(f, "{netns}  {hook} {table}  {text}")
    }
}

impl Network<'_> {
    /// The rules of a hook for a packet, in order: those that matched, may have matched, or did not match only by
    /// chance.
    pub(crate) fn matched_rules(&self, stage: &Stage) -> Vec<MatchedRule<'_>> {
        let Some(rules) = self.machines[stage.netns].rules(stage.family) else { return Vec::new() };
        let netns = &self.topology.namespaces[stage.netns].name;
        let matched = |step: &Step| {
            let (_, rule) = rules.rule(step.rule)?;
            let place = rules.place(netns, step.rule)?;
            Some(MatchedRule { place, did: step.did, next_hook: rules.next_hook(step.then), rule, packet: stage.came })
        };
        stage.path.steps().iter().filter_map(matched).collect()
    }

    /// The text of a rule of a hook's namespace, by its table, its chain and its number.
    pub(crate) fn text_of_rule(&self, stage: &Stage, (table, chain, number): (&str, &str, usize)) -> Option<String> {
        let rules = self.machines[stage.netns].rules(stage.family)?;
        rules.numbered(table, chain, number).map(|rule| rule.print(stage.family, chain))
    }

    /// Whether rules other than kube-proxy's determined the outcome of a packet: they dropped or rejected it, are not modelled, or gave it
    /// another destination.
    pub(crate) fn is_by_other_rules(&self, branch: &PredictedBranch) -> bool {
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
                translated.filter_map(|stage| self.matched_rules(stage).pop()).any(|rule| is_others(&rule.place))
            }
        }
    }

    /// The rules that had an effect on a packet, and the jumps that led to them. Jumps into chains without an effect
    /// are left out, except jumps to endpoints, which should have an effect on every packet. If the reply or the rejection is lost, those
    /// on its path follow; the policy that drops a packet is the last.
    pub(crate) fn decisive_rules(&self, branch: &PredictedBranch) -> Vec<Decisive> {
        let PredictedBranch { stages, back, outcome, .. } = branch;
        let (is_lost_on_return, cause) = match outcome {
            PredictedOutcome::Dropped { cause, rejected_at, .. } => (rejected_at.is_some(), Some(cause)),
            PredictedOutcome::Delivered { reply: PredictedReply::Lost { cause, .. }, .. } => (true, Some(cause)),
            PredictedOutcome::Delivered { reply: PredictedReply::Unknown(_), .. } => (true, None),
            _ => (false, None),
        };
        let back = if is_lost_on_return { back.as_slice() } else { &[] };
        let of_path = [stages.as_slice(), back].into_iter().flat_map(|path| self.decisive(path));
        let rules = of_path.filter_map(|one| {
            let RulePlace { netns, table, text, .. } = self.place_of(&one)?;
            Some(Decisive { netns, hook: one.stage.hook, table, text, only_leads: one.rule.only_jumps() })
        });
        let policy = back.last().or(stages.last()).zip(cause).and_then(|(stage, cause)| match cause {
            Cause::Policy { table, chain } => Some(Decisive {
                netns: self.topology.namespaces[stage.netns].name.clone(),
                hook: stage.hook,
                table: table.clone(),
                text: format!("policy DROP of {chain}"),
                only_leads: false,
            }),
            _ => None,
        });
        rules.chain(policy).collect()
    }

    /// The rule that decided the fate of a packet: the last one that drops, rejects or translates it before routing, otherwise the last
    /// rule with an effect.
    pub(crate) fn deciding(&self, stages: &[Arc<Stage>]) -> Option<RulePlace> {
        let deciding = self.decisive(stages);
        let before_routing =
            deciding.iter().rev().find(|one| !one.rule.only_jumps() && one.stage.hook.translates_destination());
        before_routing.or(deciding.last()).and_then(|one| self.place_of(one))
    }

    /// Whether a rule that matches packets in the connection state INVALID ended the path of a packet or of its reply.
    pub(crate) fn is_ended_as_invalid(&self, branch: &PredictedBranch) -> bool {
        let ended = [branch.stages.last(), branch.back.last()].into_iter().flatten();
        ended.filter_map(|stage| Some((stage, stage.path.last()?))).filter(|(_, step)| step.then == Then::End).any(
            |(stage, step)| {
                let rules = self.machines[stage.netns].rules(stage.family);
                rules.and_then(|rules| rules.rule(step.rule)).is_some_and(|(_, rule)| rule.is_for_invalid())
            },
        )
    }

    fn decisive<'s>(&'s self, stages: &'s [Arc<Stage>]) -> Vec<DecidingRule<'s>> {
        let mut deciding = Vec::new();
        for stage in stages {
            let Some(rules) = self.machines[stage.netns].rules(stage.family) else { continue };
            let mut led_to: Vec<DecidingRule<'_>> = Vec::new();
            for step in stage.path.steps().into_iter().rev() {
                let Some((chain, rule)) = rules.rule(step.rule) else { continue };
                let is_matched = matches!(step.did, Evaluated::Match(_) | Evaluated::Stop);
                let leads = led_to.last().is_some_and(|next| rules.next_chain(step.then) == Some(next.chain));
                let decides = matches!(step.then, Then::Accept | Then::End) || rule.has_effect();
                let is_for_endpoint = || rules.next_chain(step.then).is_some_and(|next| rule.is_endpoint_chain(next));
                if is_matched && (leads || decides || is_for_endpoint()) {
                    led_to.push(DecidingRule { stage, id: step.rule, chain, rule });
                }
            }
            deciding.extend(led_to.into_iter().rev());
        }
        deciding
    }

    fn place_of(&self, one: &DecidingRule<'_>) -> Option<RulePlace> {
        self.machines[one.stage.netns].place(one.stage.family, one.id)
    }
}

/// A rule that decided about a packet, without its text.
struct DecidingRule<'s> {
    stage: &'s Stage,
    id: RuleId,
    chain: &'s str,
    rule: Rule<'s>,
}
