//! Diagnosis of a failed probe: promise, prediction, and the flow sent again while the kernel traces it.
//!
//! Predictions are for a first flow, so client lists, and all connections except the scenario's own, are flushed before the probe is sent
//! again. If earlier state has changed the result, the diagnosis says so.

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::PromisedOutcome;

use super::RunError;
use crate::documents::Document;
use crate::observation::Observation;
use crate::predict::{NO_ADDRESS, Network, NewFlow, PredictedBranch, Prediction};
use crate::probe::Prober;
use crate::report::{Diagnosis, KernelMatch, RuleExcerpt};
use crate::scenario::{Flows, Probe, Scenario};
use crate::sources::{Context, FlowOutcome, Sources, promise_words};
use crate::trace::{Difference, Passage, Traced, TracedWhat, nearest, send_traced};

/// The maximum number of rules shown, so that a failure fits on a screen.
const MAX_RULES: usize = 7;
/// The maximum number of outcomes of a prediction shown.
const MAX_OUTCOMES: usize = 4;

/// A failed probe and its state.
pub(super) struct Failure<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) cluster: &'a Cluster,
    pub(super) documents: &'a [Document],
    pub(super) probe: &'a Probe,
}

impl Failure<'_> {
    /// Compares the three sources for one flow of the probe, sent again with the initial state of nodes; `first` is the observation that
    /// failed. The returned rules are those on the path that the kernel took; empty if nothing is predicted.
    ///
    /// # Errors
    ///
    /// If the probe cannot be sent again, or the rules cannot be read.
    pub(super) fn diagnosis(
        &self,
        prober: &mut Prober<'_>,
        first: &Observation,
    ) -> Result<(Diagnosis, Vec<RuleExcerpt>), RunError> {
        let Self { scenario, cluster, documents, probe } = *self;
        let probe_error = |source| RunError::Probe { span: probe.span.clone(), source: Box::new(source) };
        let (flow, traced) = match send_traced(prober, probe) {
            Ok((flow, traced)) => (flow, Ok(traced)),
            // Without a trace, the other sources may still explain it.
            Err(error) => {
                let one = Probe { flows: Flows::Exactly(1), ..probe.clone() };
                let mut flows = prober.send_all(&[one]).map_err(probe_error)?;
                (flows.swap_remove(0), Err(error.to_string()))
            }
        };
        let context = Context::of::<RunError>(&scenario.hosts, prober.lab().topology(), documents, cluster)?;
        let context = context.with_connections(scenario.connections_with(cluster));
        let sent = NewFlow::of(probe, flow.source.port());
        let question = context.question(probe);
        let sources = question.as_ref().map(|question| Sources::about(&context, question, &sent, &flow));
        let prediction = sources.as_ref().and_then(|sources| sources.prediction.as_ref());
        let seen = FlowOutcome::observed(&flow);
        let way =
            prediction.map(|prediction| TakenBranch::of(&context.network, prediction, &seen, traced.as_deref().ok()));
        let diagnosis = Diagnosis {
            promise: sources.as_ref().map(|sources| promise_words(&sources.promise)),
            prediction: prediction.map(|prediction| prediction.outcome_lines(MAX_OUTCOMES)).unwrap_or_default(),
            unpredicted: prediction.is_none().then(|| unpredicted(probe).to_owned()),
            observation: seen.to_string(),
            meaning: sources.as_ref().map(|sources| meaning(sources, first)).unwrap_or_default(),
            kernel: way.as_ref().and_then(|way| way.kernel.clone()),
            trace: traced.iter().flatten().map(|one| trace_line(prober, one)).collect(),
            untraced: match traced {
                Ok(traced) if traced.is_empty() => Some("it reported no matched rule".to_owned()),
                Ok(_) => None,
                Err(reason) => Some(reason),
            },
        };
        Ok((diagnosis, way.map(|way| way.rules).unwrap_or_default()))
    }
}

/// The reason why nothing is predicted for a probe.
fn unpredicted(probe: &Probe) -> &'static str {
    match probe.tcp_flags {
        Some(_) => "only packets that open a connection are predicted",
        None => NO_ADDRESS,
    }
}

/// An event of the kernel's trace in one line.
fn trace_line(prober: &mut Prober<'_>, traced: &Traced) -> String {
    let Traced { netns, passage, table, chain, what, .. } = traced;
    let packet = match passage {
        Passage::There => "packet",
        Passage::Back => "reply",
    };
    let what = match what {
        TracedWhat::Rule(Some(number)) => format!("rule {number}"),
        TracedWhat::Rule(None) => "a rule that no longer exists".to_owned(),
        TracedWhat::Return => "return".to_owned(),
        TracedWhat::Policy => "policy".to_owned(),
    };
    format!("{packet}  {}  {table} {chain} {what}", prober.lab().name_of(*netns))
}

/// The comparison of the sources, in a sentence or two.
fn meaning(sources: &Sources<'_, '_>, first: &Observation) -> String {
    let depended_on_state = depended_on_state(sources, first);
    let before = if depended_on_state { DEPENDED_ON_STATE } else { "" };
    if let Some((disagreement, what)) = sources.disagreement() {
        return format!("{before}{} ({what})", disagreement.sentence(true));
    }
    let agree = match &sources.promise.outcome {
        PromisedOutcome::NotPromised => "Nothing is promised; prediction and kernel agree",
        _ => "Promise, prediction and kernel agree",
    };
    let after = if depended_on_state { "" } else { ": the expectation differs" };
    format!("{before}{agree}{after}.")
}

/// The introduction for a probe that failed because of state left by earlier flows.
const DEPENDED_ON_STATE: &str = "State of earlier flows on nodes (connections, client lists) changed its path. Sent again without \
                             it: ";

/// Whether the first observation was an outcome that no first flow can have, and the repeated one was not.
fn depended_on_state(sources: &Sources<'_, '_>, first: &Observation) -> bool {
    let Observation::Flow(first) = first else { return false };
    let branches = sources.prediction.as_ref().map(|prediction| prediction.branches.iter());
    let outcomes: Option<Vec<FlowOutcome>> =
        branches.and_then(|branches| branches.map(|branch| FlowOutcome::predicted(&branch.outcome)).collect());
    let can_become = |seen: &FlowOutcome| outcomes.iter().flatten().any(|outcome| outcome.is_like(seen));
    outcomes.is_some() && sources.seen.as_ref().is_some_and(can_become) && !can_become(&FlowOutcome::observed(first))
}

/// The predicted branch that the kernel took, as far as it followed one.
struct TakenBranch {
    rules: Vec<RuleExcerpt>,
    kernel: Option<KernelMatch>,
}

impl TakenBranch {
    fn of(network: &Network<'_>, prediction: &Prediction, seen: &FlowOutcome, traced: Option<&[Traced]>) -> Self {
        let all = &prediction.branches;
        let found = traced.and_then(|traced| nearest(network, all, traced, seen));
        let is_it =
            |branch: &&PredictedBranch| FlowOutcome::predicted(&branch.outcome).is_some_and(|one| one.is_like(seen));
        let likely = || all.iter().find(is_it).or_else(|| all.first());
        let branch = found.as_ref().map(|(way, _)| &all[*way]).or_else(likely);
        let matched = traced.unwrap_or_default().iter().filter(|one| matches!(one.what, TracedWhat::Rule(_))).count();
        let kernel = found.map(|(_, comparison)| KernelMatch {
            as_predicted: comparison.alike,
            matched,
            difference: comparison.difference.as_ref().map(difference_words),
        });
        Self { rules: branch.map(|branch| excerpts(network, branch)).unwrap_or_default(), kernel }
    }
}

fn difference_words(difference: &Difference) -> Vec<String> {
    let Difference { place, passage, predicted, kernel } = difference;
    let packet = match passage {
        Passage::There => "the packet",
        Passage::Back => "the reply",
    };
    vec![
        format!("{packet} on {place}"),
        format!("predicted  {}", predicted.as_deref().unwrap_or("no further rule")),
        format!("kernel     {kernel}"),
    ]
}

/// The deciding rules by machine, without those that every packet passes.
fn excerpts(network: &Network<'_>, branch: &PredictedBranch) -> Vec<RuleExcerpt> {
    let mut rules = network.decisive_rules(branch);
    rules.retain(|rule| !rule.only_leads);
    // The last rules decided.
    let more = rules.len().saturating_sub(MAX_RULES);
    let mut excerpts: Vec<RuleExcerpt> = Vec::new();
    for rule in rules.drain(more..) {
        let line = format!("{}: {}", rule.table, rule.text);
        match excerpts.last_mut().filter(|excerpt| excerpt.place == rule.netns) {
            Some(excerpt) => excerpt.lines.push(line),
            None => excerpts.push(RuleExcerpt { place: rule.netns, lines: vec![line] }),
        }
    }
    excerpts
}
