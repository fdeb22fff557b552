//! The three sources for one flow.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use svclab_rules::promise::{Promise, PromisedOutcome, Question};
use svclab_rules::walk::{Assumptions, Packet};

use super::compare::Flow;
use super::context::Context;
use super::disagreement::Disagreement;
use super::hidden_interfaces;
use super::outcome::{FlowOutcome, kind_words, outcome_words};
use crate::observation::FlowObservation;
use crate::predict::{Network, NewFlow, PredictedBranch, PredictedOutcome, PredictedReply, Prediction, Senders};
use crate::text::link;

/// The three sources for a flow.
pub(crate) struct Sources<'c, 'a> {
    context: &'c Context<'a>,
    flow: Flow<'c>,
    sent: FlowOrClass<'c>,
    pub(crate) promise: Promise,
    pub(crate) prediction: Option<Prediction>,
    /// The observation, if a packet was sent.
    pub(crate) seen: Option<FlowOutcome>,
    /// Whether the branches say nothing about shares: the prediction contains only some of them, while the others are known to keep the
    /// promise, or the packet belongs to a connection whose endpoint is chosen already.
    is_part: bool,
}

/// A flow, or the packet of a class.
#[derive(Clone, Copy)]
enum FlowOrClass<'c> {
    Flow(&'c NewFlow),
    /// A packet that represents others of the same senders.
    Packet(&'c Senders, Packet),
}

/// Whether known bugs of a release excuse that a promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuses {
    Known,
    No,
}

impl FlowOrClass<'_> {
    fn predict(self, network: &Network<'_>) -> Option<Prediction> {
        match self {
            Self::Flow(flow) => network.predict(flow),
            Self::Packet(senders, packet) => {
                network.predict_set(senders, &packet, None, None).map(|(_, prediction)| prediction)
            }
        }
    }
}

impl<'c, 'a> Sources<'c, 'a> {
    /// All sources for one flow of a question.
    pub(crate) fn about(
        context: &'c Context<'a>,
        question: &'c Question,
        sent: &'c NewFlow,
        observed: &FlowObservation,
    ) -> Self {
        let flow = Flow { question, source: observed.source.ip() };
        let (promise, prediction) = (context.promise(question), context.network.predict(sent));
        let mut seen = FlowOutcome::observed(observed);
        prediction.iter().flat_map(|prediction| &prediction.branches).for_each(|branch| seen.explain(&branch.outcome));
        let is_part =
            prediction.as_ref().is_some_and(|prediction| context.network.is_restored(prediction, question.to));
        Self { context, flow, sent: FlowOrClass::Flow(sent), promise, prediction, seen: Some(seen), is_part }
    }

    /// Promise and prediction for one flow of a question; `None` if nothing is predicted.
    pub(crate) fn about_flow(context: &'c Context<'a>, question: &'c Question, sent: &'c NewFlow) -> Option<Self> {
        let (promise, prediction) = (context.promise(question), context.network.predict(sent)?);
        let flow = Flow { question, source: prediction.source.ip() };
        let sent = FlowOrClass::Flow(sent);
        let is_part = context.network.is_restored(&prediction, question.to);
        Some(Self { context, flow, sent, promise, prediction: Some(prediction), seen: None, is_part })
    }

    /// Promise and prediction for a packet that senders may send.
    pub(crate) fn about_packet(
        context: &'c Context<'a>,
        question: &'c Question,
        (senders, packet): (&'c Senders, Packet),
        (promise, prediction): (Promise, Prediction),
    ) -> Self {
        let flow = Flow { question, source: packet.source };
        let sent = FlowOrClass::Packet(senders, packet);
        Self { context, flow, sent, promise, prediction: Some(prediction), seen: None, is_part: false }
    }

    /// Marks the prediction as containing only some of the branches, while the others are known to keep the promise.
    pub(crate) fn about_part(self, is_part: bool) -> Self {
        Self { is_part, ..self }
    }

    /// The disagreement between the sources and its subject: see [`Self::disagreement`]. A known bug of a release counts as one only if the
    /// release's own rules have the same outcomes.
    pub(crate) fn disagreement_with(&self, released: &Network<'_>) -> Option<(Disagreement, String)> {
        let (disagreement, what) = self.disagreement()?;
        if disagreement != Disagreement::Known {
            return Some((disagreement, what));
        }
        let outcomes = |prediction: &Prediction| -> BTreeSet<String> {
            prediction.branches.iter().map(|branch| outcome_words(&branch.outcome)).collect()
        };
        let is_of_release =
            || self.prediction.as_ref().map(outcomes) == self.sent.predict(released).as_ref().map(outcomes);
        if is_of_release() { Some((disagreement, what)) } else { self.disagreement_of(Excuses::No) }
    }

    /// The disagreement between the sources and its subject; `None` if all agree.
    pub(crate) fn disagreement(&self) -> Option<(Disagreement, String)> {
        self.disagreement_of(Excuses::Known)
    }

    fn disagreement_of(&self, excuses: Excuses) -> Option<(Disagreement, String)> {
        let Some(seen) = &self.seen else {
            return self.prediction.as_ref().and_then(|prediction| self.prediction_disagreement(prediction, excuses));
        };
        let keeps = self.admits(seen);
        let Some(prediction) = &self.prediction else {
            return Some((Disagreement::Model, "nothing is predicted".to_owned()));
        };
        if self.is_by_other_rules(prediction) {
            // Unless their effect is unknown.
            let agrees = prediction.branches.iter().any(|branch| unknown(&branch.outcome).is_some())
                || self.predicted(prediction, seen);
            return (!agrees).then(|| match assumed(prediction) {
                Some(what) => (Disagreement::Unknown, what),
                None => (Disagreement::Model, self.difference(seen, prediction)),
            });
        }
        if let Some(unknown) = prediction.branches.iter().find_map(|branch| unknown(&branch.outcome)) {
            if self.promise.outcome == PromisedOutcome::NotPromised {
                // There is nothing that the observation could contradict.
                return None;
            }
            return Some(if keeps { (Disagreement::Unknown, unknown) } else { self.unkept_unpredicted(seen, excuses) });
        }
        if let Some(hidden) = self.hidden_interfaces(prediction) {
            return Some((Disagreement::NotShown, hidden));
        }
        let predicted = self.predicted(prediction, seen);
        let broken = self.broken(prediction);
        let is_even = self.is_part || self.context.comparison.has_shares(&self.promise, prediction);
        // What rules have counted of earlier packets, of other flows too, decides then.
        if let Some(what) = assumed(prediction).filter(|_| !predicted) {
            return Some((Disagreement::Rules, what));
        }
        let disagreement = match (broken.is_none() && is_even, keeps, predicted) {
            (true, true, true) => return self.counted(prediction).map(|what| (Disagreement::Rules, what)),
            (false, _, true) => return Some(self.unkept(broken, prediction, excuses)),
            // The observation is one of the predicted outcomes, and all of these are promised.
            (true, false, true) | (true, true, false) => Disagreement::Model,
            (true, false, false) => Disagreement::Kernel,
            (false, true, false) => Disagreement::Model,
            (false, false, false) => Disagreement::All,
        };
        Some((disagreement, self.difference(seen, prediction)))
    }

    /// Whether a packet is not for a service and rules other than kube-proxy's decide about it: no promise covers that.
    fn is_by_other_rules(&self, prediction: &Prediction) -> bool {
        let is_others = |branch: &PredictedBranch| self.context.network.is_by_other_rules(branch);
        matches!(self.promise.outcome, PromisedOutcome::NotAService(_)) && prediction.branches.iter().any(is_others)
    }

    /// The disagreement between the prediction alone and the promise.
    fn prediction_disagreement(&self, prediction: &Prediction, excuses: Excuses) -> Option<(Disagreement, String)> {
        if self.promise.outcome == PromisedOutcome::NotPromised || self.is_by_other_rules(prediction) {
            return None;
        }
        if let Some(unknown) = prediction.branches.iter().find_map(|branch| unknown(&branch.outcome)) {
            return Some((Disagreement::Unknown, unknown));
        }
        if let Some(hidden) = self.hidden_interfaces(prediction) {
            return Some((Disagreement::NotShown, hidden));
        }
        let broken = self.broken(prediction);
        let is_even = self.is_part || self.context.comparison.has_shares(&self.promise, prediction);
        if broken.is_none() && is_even {
            return self.counted(prediction).map(|what| (Disagreement::Rules, what));
        }
        Some(self.unkept(broken, prediction, excuses))
    }

    /// A delivery that depends on rules which count packets.
    fn counted(&self, prediction: &Prediction) -> Option<String> {
        let is_promised = matches!(self.promise.outcome, PromisedOutcome::Delivered { .. });
        assumed(prediction).filter(|_| is_promised)
    }

    /// The difference between observation and prediction, in words.
    fn difference(&self, seen: &FlowOutcome, prediction: &Prediction) -> String {
        let short = (self.short(seen), self.predicted_in_short(prediction));
        if short.1 != format!("predicted: {}", short.0) {
            return format!("{}; {}", short.0, short.1);
        }
        let first = prediction.branches.first().and_then(|branch| FlowOutcome::predicted(&branch.outcome));
        match (seen, first) {
            _ if prediction.source.ip() != self.flow.source => {
                format!("sent from {}, where {} was predicted", self.flow.source, prediction.source.ip())
            }
            (
                FlowOutcome::Delivered { at, source, destination, reply },
                Some(FlowOutcome::Delivered { at: there, source: from, destination: to, reply: answer }),
            ) => {
                let ends = [
                    (source.ip() != from.ip()).then(|| format!("the source is {}, not {}", source.ip(), from.ip())),
                    (*destination != to).then(|| format!("the destination is {destination}, not {to}")),
                    (*reply != answer).then(|| {
                        let words = |reply: Option<_>| reply.map_or("none".to_owned(), |from| format!("from {from}"));
                        format!("the reply is {}, not {}", words(*reply), words(answer))
                    }),
                    (*at != there).then(|| format!("it is delivered to {at}, not {there}")),
                ];
                let ends: Vec<String> = ends.into_iter().flatten().collect();
                if ends.is_empty() { format!("{seen}, where another outcome was predicted") } else { ends.join("; ") }
            }
            _ => format!("{seen}, where another outcome was predicted"),
        }
    }

    /// The known bug of the release, with its reference.
    fn known(&self, excuses: Excuses) -> Option<(Disagreement, String)> {
        let known_bug = self.promise.known_bug.filter(|_| excuses == Excuses::Known)?;
        let link = link(known_bug.document()).map(|link| format!(" [{link}]")).unwrap_or_default();
        Some((Disagreement::Known, format!("{known_bug}{link}")))
    }

    /// The disagreement if the promise is broken, but it is unknown whether the rules are the cause.
    fn unkept_unpredicted(&self, seen: &FlowOutcome, excuses: Excuses) -> (Disagreement, String) {
        self.known(excuses).unwrap_or_else(|| (Disagreement::Unpredicted, self.short(seen)))
    }

    /// The disagreement if the promise is broken, and the kernel follows the prediction.
    fn unkept(
        &self,
        broken: Option<&PredictedBranch>,
        prediction: &Prediction,
        excuses: Excuses,
    ) -> (Disagreement, String) {
        if let Some(known) = self.known(excuses) {
            return known;
        }
        let Some(branch) = broken else {
            let what = self.context.comparison.uneven(&self.promise, prediction);
            let what = what.map(|what| format!(": {what}")).unwrap_or_default();
            return (Disagreement::Rules, format!("endpoints do not get their promised shares{what}"));
        };
        let would_keep = |network: &Network<'_>| {
            self.sent.predict(network).is_some_and(|prediction| self.broken(&prediction).is_none())
        };
        let what = format!("{}{}", self.branch_in_short(branch), self.promised_elsewhere(branch));
        if self.context.without_connections().is_some_and(would_keep) {
            return (Disagreement::Connection, what);
        }
        match self.context.cause_in_network(would_keep) {
            Some(cause) => (Disagreement::Network, format!("{what}; cause: {cause}")),
            None => (Disagreement::Rules, what),
        }
    }

    fn admits(&self, seen: &FlowOutcome) -> bool {
        self.context.comparison.admits(&self.promise, self.flow, seen)
    }

    /// Whether the observation is one of the predicted outcomes.
    fn predicted(&self, prediction: &Prediction, seen: &FlowOutcome) -> bool {
        // A socket whose destination the kernel rejects at once has no source.
        let same_source = self.flow.source.is_unspecified() || prediction.source.ip() == self.flow.source;
        let outcomes = prediction.branches.iter().filter_map(|branch| FlowOutcome::predicted(&branch.outcome));
        same_source && outcomes.into_iter().any(|one| one.is_like(seen))
    }

    /// A branch that the promise does not admit; rather one that does not depend on interfaces which the text does not show.
    fn broken<'p>(&self, prediction: &'p Prediction) -> Option<&'p PredictedBranch> {
        let broken = prediction.branches.iter().filter(|branch| self.is_broken(branch));
        broken.min_by_key(|branch| hidden_interfaces::matched_count(&self.context.network, branch))
    }

    fn is_broken(&self, branch: &PredictedBranch) -> bool {
        FlowOutcome::predicted(&branch.outcome).is_none_or(|seen| !self.admits(&seen))
    }

    /// What the outcome depends on, if the promise is kept or broken depending on interfaces that the text does not show.
    fn hidden_interfaces(&self, prediction: &Prediction) -> Option<String> {
        let rule = hidden_interfaces::deciding(&self.context.network, prediction, |branch| self.is_broken(branch))?;
        Some(format!("depends on the interfaces of a rule that the text does not show: {rule}"))
    }

    /// The branch to show: one that is not promised, otherwise the longest path to an endpoint that gets too much, otherwise the first.
    pub(crate) fn branch_that_matters(&self) -> Option<&PredictedBranch> {
        let prediction = self.prediction.as_ref()?;
        let favoured = || {
            let address = self.context.comparison.favoured(&self.promise, prediction)?;
            let leads_there = |branch: &&PredictedBranch| matches!(branch.outcome, PredictedOutcome::Delivered { destination, .. } if destination == address);
            let length = |branch: &&PredictedBranch| self.context.network.decisive_rules(branch).len();
            prediction.branches.iter().filter(leads_there).max_by_key(length)
        };
        let favoured = || if self.is_part { None } else { favoured() };
        self.broken(prediction).or_else(favoured).or_else(|| prediction.branches.first())
    }

    fn predicted_in_short(&self, prediction: &Prediction) -> String {
        match self.broken(prediction).or_else(|| prediction.branches.first()) {
            Some(branch) => format!("predicted: {}", self.branch_in_short(branch)),
            None => "nothing is predicted".to_owned(),
        }
    }

    /// The place where a drop was promised, if the packet is lost elsewhere.
    fn promised_elsewhere(&self, branch: &PredictedBranch) -> String {
        match (&self.promise.outcome, &branch.outcome, &self.promise.node) {
            (PromisedOutcome::Dropped | PromisedOutcome::Fails, PredictedOutcome::Dropped { .. }, Some(node)) => {
                format!(", but node/{node} should drop it")
            }
            _ => String::new(),
        }
    }

    fn branch_in_short(&self, branch: &PredictedBranch) -> String {
        match &branch.outcome {
            dropped @ PredictedOutcome::Dropped { .. } => dropped.to_string(),
            PredictedOutcome::Rejected { kind, at, cause } => {
                format!("rejected on {at} ({}): {cause}", kind_words(*kind))
            }
            PredictedOutcome::Unknown { rule, .. } => format!("unknown because of {rule}"),
            PredictedOutcome::Delivered { reply: PredictedReply::Lost { at, cause }, .. } => {
                format!("delivered, but the reply is lost on {at}: {cause}")
            }
            PredictedOutcome::Delivered { .. } => {
                FlowOutcome::predicted(&branch.outcome).map(|seen| self.short(&seen)).unwrap_or_default()
            }
        }
    }

    /// The outcome of the flow, without details that vary from flow to flow.
    fn short(&self, seen: &FlowOutcome) -> String {
        let FlowOutcome::Delivered { source, destination, reply, .. } = seen else { return seen.to_string() };
        match self.promise.outcome {
            PromisedOutcome::Delivered { .. } => {}
            PromisedOutcome::Dropped => return "delivered instead of dropped".to_owned(),
            PromisedOutcome::Rejected(_) => return "delivered instead of rejected".to_owned(),
            PromisedOutcome::Fails => return "delivered instead of rejected or dropped".to_owned(),
            _ if *destination != self.flow.question.to => return "delivered elsewhere".to_owned(),
            _ if source.ip() != self.flow.source => return self.with_another_source(source.ip(), *destination),
            _ => return "delivered".to_owned(),
        }
        if self.promise.outcome.endpoint(*destination).is_none() {
            return "delivered to an address that is not a ready endpoint".to_owned();
        }
        if self.admits(seen) {
            return "delivered as promised".to_owned();
        }
        let kept = source.ip() == self.flow.source;
        match reply {
            None => "delivered, and no reply arrives".to_owned(),
            Some(reply) if reply == destination && *reply != self.flow.question.to => {
                "delivered, with a reply from another address: the endpoint's own".to_owned()
            }
            Some(reply) if *reply != self.flow.question.to => "delivered, with a reply from another address".to_owned(),
            Some(_) if kept => "delivered with the source preserved instead of masqueraded".to_owned(),
            Some(_) => self.with_another_source(source.ip(), *destination),
        }
    }
}

impl Sources<'_, '_> {
    fn with_another_source(&self, source: IpAddr, destination: SocketAddr) -> String {
        let owner = self.context.comparison.source_owner(source, destination);
        let of = if owner.starts_with("node ") { "an address of " } else { "" };
        format!("delivered with the wrong source: {of}{owner}")
    }
}

fn unknown(outcome: &PredictedOutcome) -> Option<String> {
    match outcome {
        PredictedOutcome::Unknown { rule, why } => Some(format!("{why}; {rule}")),
        PredictedOutcome::Delivered { reply: PredictedReply::Unknown(rule), .. } => {
            Some(format!("of the answer; {rule}"))
        }
        _ => None,
    }
}

/// The assumptions of a prediction about what rules have counted, in words.
pub(crate) fn assumed(prediction: &Prediction) -> Option<String> {
    let all = prediction.branches.iter().map(|branch| branch.assumptions);
    let all = all.fold(Assumptions::NONE, Assumptions::and).of_counts();
    (all != Assumptions::NONE).then(|| format!("depends on what rules count: {all}"))
}
