//! Compares predictions only with the kernel, for any flows and any rules, regardless of promises.

use std::collections::HashMap;

use svclab_rules::walk::Assumptions;

use crate::documents::Document;
use crate::lab::{Backend, with_lab};
use crate::observation::{Direction, FlowObservation};
use crate::predict::{Network, NewFlow, PredictedOutcome, Prediction};
use crate::probe::{ProbeError, Prober};
use crate::run::{RunError, guarded};
use crate::scenario::{Probe, Scenario, Span};
use crate::sources::FlowOutcome;
use crate::topology::{self, NetnsId};

/// The agreement of prediction and kernel for some flows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreement {
    /// Flows for which the kernel did what was predicted, or one of several predicted outcomes.
    pub(crate) agreed: usize,
    /// Of these, flows with several possible outcomes by chance.
    pub(crate) by_chance: usize,
    /// Of these, flows that agree only if the prediction starts from the source port that the kernel chose at random, because a rule on the
    /// path matches that port.
    pub(crate) by_port: usize,
    /// Of these, flows that agree when they are sent again, alone and after a flush: rules on the path depend on state of the client's
    /// earlier flows, and predictions are for a first flow.
    pub(crate) by_memory: usize,
    /// The reason for each flow without a prediction, as a lower-case fragment.
    pub(crate) unknown: Vec<String>,
    /// Flows for which the kernel did something else.
    pub(crate) contradictions: Vec<Contradiction>,
}

/// A flow for which the kernel did something that was not predicted.
#[derive(Debug, Clone)]
pub(crate) struct Contradiction {
    /// The position of the probe, from 0.
    pub(crate) probe: usize,
    /// The prediction: each branch with its share, and the deciding rules.
    pub(crate) predicted: Vec<String>,
    /// The observation.
    pub(crate) observed: String,
}

/// Sends one flow of each probe in a scenario's first state with these rules, many at the same time, and compares the outcome of each with
/// its prediction: verdict, receiver, both addresses and the destination's port, and the reply.
///
/// # Errors
///
/// If the lab cannot be built, rules cannot be walked or a probe cannot be sent.
pub(crate) fn compare_with_kernel(
    scenario: &Scenario,
    documents: &[Document],
    probes: &[Probe],
    backend: Backend,
) -> Result<Agreement, RunError> {
    guarded(|| {
        let topology = topology::plan(scenario);
        let network = Network::of(&topology, documents, &scenario.cluster)?;
        let compared = with_lab(&topology, documents, backend, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster)?;
            let flows = prober.send_all(probes)?;
            let mut agreement = Agreement::default();
            for (number, (probe, observed)) in probes.iter().zip(&flows).enumerate() {
                agreement.add(&network, number, probe, observed);
            }
            if documents.iter().any(|document| document.rules.remembers()) {
                agreement.try_alone(&network, probes, &mut prober)?;
            }
            Ok(agreement)
        })?;
        compared.map_err(|source| RunError::Probe { span: Span::start_of(&scenario.file), source: Box::new(source) })
    })
}

impl Agreement {
    /// Sends flows that contradict their prediction again, each alone and without state of others.
    fn try_alone(
        &mut self,
        network: &Network<'_>,
        probes: &[Probe],
        prober: &mut Prober<'_>,
    ) -> Result<(), ProbeError> {
        for contradiction in std::mem::take(&mut self.contradictions) {
            prober.lab().forget()?;
            let probe = &probes[contradiction.probe];
            let mut alone = Self::default();
            for observed in prober.send_all(std::slice::from_ref(probe))? {
                alone.add(network, contradiction.probe, probe, &observed);
            }
            if alone.agreed == 1 {
                self.agreed += 1;
                self.by_memory += 1;
            } else {
                self.contradictions.push(contradiction);
            }
        }
        Ok(())
    }

    fn add(&mut self, network: &Network<'_>, number: usize, probe: &Probe, observed: &FlowObservation) {
        let seen = FlowOutcome::observed(observed);
        let Some(prediction) = network.predict(&NewFlow::of(probe, observed.source.port())) else {
            let predicted = vec!["nothing: no sender can send this".to_owned()];
            self.contradictions.push(Contradiction { probe: number, predicted, observed: seen.to_string() });
            return;
        };
        let outcomes =
            prediction.branches.iter().map(|branch| FlowOutcome::predicted(&branch.outcome).ok_or(&branch.outcome));
        let outcomes = match outcomes.collect::<Result<Vec<FlowOutcome>, &PredictedOutcome>>() {
            Ok(outcomes) => outcomes,
            Err(PredictedOutcome::Unknown { why, .. }) => return self.unknown.push(why.to_string()),
            Err(_) => return self.unknown.push("the answer's way".to_owned()),
        };
        let predicts = |outcomes: &[FlowOutcome]| outcomes.iter().any(|outcome| outcome.is_like(&seen));
        if prediction.source.ip() == observed.source.ip() && predicts(&outcomes) {
            self.agreed += 1;
            self.by_chance += usize::from(outcomes.len() > 1);
        } else if predicts(&outcomes_with_ports(network, probe, observed)) {
            self.agreed += 1;
            self.by_port += 1;
        } else {
            let predicted = words_of_all(network, &prediction);
            let observed = format!("sent from {}: {seen}", observed.source);
            self.contradictions.push(Contradiction { probe: number, predicted, observed });
        }
    }
}

/// The prediction for a flow, given the source ports that the kernel was seen to choose, for its packet or for the reply.
fn outcomes_with_ports(network: &Network<'_>, probe: &Probe, observed: &FlowObservation) -> Vec<FlowOutcome> {
    let leaving = observed.path.iter().filter(|sighting| sighting.direction == Direction::Out);
    let leaving = leaving.filter_map(|one| Some((network.topology().find(&one.place)?, one.flow?.source.port())));
    let leaving: Vec<(NetnsId, u16)> = leaving.collect();
    // The first packet that leaves a namespace is the flow's, the last is its reply: if there are several, the later one counts.
    let of_packet: HashMap<NetnsId, u16> = leaving.iter().rev().copied().collect();
    let of_answer: HashMap<NetnsId, u16> = leaving.iter().copied().collect();
    let predicted = [of_packet, of_answer]
        .into_iter()
        .filter_map(|chosen| network.predict_where(&NewFlow::of(probe, observed.source.port()), &chosen));
    let branches = predicted.flat_map(|prediction| prediction.branches);
    branches.filter_map(|branch| FlowOutcome::predicted(&branch.outcome)).collect()
}

/// Each branch with its share, followed by the deciding rules.
fn words_of_all(network: &Network<'_>, prediction: &Prediction) -> Vec<String> {
    let mut words = vec![format!("sent from {}", prediction.source)];
    for branch in &prediction.branches {
        let assumed = match branch.assumptions {
            Assumptions::NONE => String::new(),
            assumed => format!(" (assumed: {assumed})"),
        };
        words.push(format!("{}: {}{assumed}", branch.share, branch.outcome));
        words.extend(network.decisive_rules(branch).iter().map(|rule| format!("    {rule}")));
    }
    words
}
