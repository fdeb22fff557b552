//! Prediction against the kernel alone, for any flows and any rules, whatever is promised.

use svclab_rules::walk::Assumptions;

use super::survey::{start_of, words_of};
use crate::documents;
use crate::lab::{Backend, with_lab};
use crate::observation::FlowObservation;
use crate::predict::{Network, Prediction};
use crate::probe::Prober;
use crate::run::{RunError, guarded};
use crate::scenario::{Probe, Scenario};
use crate::topology;
use crate::voices::{Seen, sent};

/// How prediction and kernel get on with each other about some flows.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// Flows of which the kernel did what was predicted, or one of several things that were.
    pub agreed: usize,
    /// Of these, flows of which chance left several things open.
    pub by_chance: usize,
    /// Flows of which nothing is predicted, because of a rule that is not modelled.
    pub unknown: usize,
    /// Flows of which the kernel did something else.
    pub contradictions: Vec<Contradiction>,
}

/// A flow of which the kernel did what was not predicted.
#[derive(Debug, Clone)]
pub struct Contradiction {
    /// Which of the probes it is, from 0.
    pub probe: usize,
    /// What was predicted: each branch with its share, and the rules that it met.
    pub predicted: Vec<String>,
    /// What was seen.
    pub observed: String,
}

/// Sends one flow of each probe in a scenario's first state, many at the same time, and compares what becomes of each with its
/// prediction: verdict, who gets it, both addresses and the destination's port, and the answer.
///
/// # Errors
///
/// What keeps the lab from being built, rules from being walked or a probe from being sent.
pub fn compare_with_kernel(scenario: &Scenario, probes: &[Probe], backend: Backend) -> Result<Agreement, RunError> {
    guarded(|| {
        let documents = documents::generate(scenario, &scenario.cluster)?;
        let topology = topology::plan(scenario);
        let network = Network::of(&topology, &documents, &scenario.cluster);
        let network = network.map_err(|error| RunError::Unwalkable(Box::new(error)))?;
        let flows = with_lab(&topology, &documents, backend, |lab| {
            Prober::new(lab, &scenario.cluster).and_then(|mut prober| prober.send_together(probes))
        })?;
        let flows = flows.map_err(|source| RunError::Probe { span: start_of(scenario), source: Box::new(source) })?;
        let mut agreement = Agreement::default();
        for (number, (probe, observed)) in probes.iter().zip(&flows).enumerate() {
            agreement.add(&network, number, probe, observed);
        }
        Ok(agreement)
    })
}

impl Agreement {
    fn add(&mut self, network: &Network<'_>, number: usize, probe: &Probe, observed: &FlowObservation) {
        let seen = Seen::observed(observed);
        let Some(prediction) = network.predict(&sent(probe, observed.source.port())) else {
            let predicted = vec!["nothing: nobody can send this".to_owned()];
            self.contradictions.push(Contradiction { probe: number, predicted, observed: seen.to_string() });
            return;
        };
        let outcomes: Vec<Option<Seen>> =
            prediction.branches.iter().map(|branch| Seen::predicted(&branch.outcome)).collect();
        if outcomes.contains(&None) {
            self.unknown += 1;
        } else if prediction.source.ip() == observed.source.ip()
            && outcomes.iter().flatten().any(|outcome| outcome.is_like(&seen))
        {
            self.agreed += 1;
            self.by_chance += usize::from(outcomes.len() > 1);
        } else {
            let predicted = words_of_all(network, &prediction);
            let observed = format!("sent from {}: {seen}", observed.source);
            self.contradictions.push(Contradiction { probe: number, predicted, observed });
        }
    }
}

/// Each branch with its share, and behind it the rules that it met.
fn words_of_all(network: &Network<'_>, prediction: &Prediction) -> Vec<String> {
    let mut words = vec![format!("sent from {}", prediction.source)];
    for branch in &prediction.branches {
        let assumed = match branch.assumptions {
            Assumptions::NONE => String::new(),
            assumed => format!(" (assumed: {assumed})"),
        };
        words.push(format!("{}: {}{assumed}", branch.share, branch.outcome));
        words.extend(words_of(network, branch).into_iter().map(|rule| format!("    {rule}")));
    }
    words
}
