//! Everything about a scenario's first state that is needed to ask the voices.

use std::collections::{BTreeSet, HashMap};

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::{Promise, Promises, Question, VantagePoint, questions};

use super::survey::{probe, vantages};
use crate::documents::{self, Document, DocumentError};
use crate::observation::FlowObservation;
use crate::predict::{Network, Predicted, Prediction, Sent};
use crate::run::RunError;
use crate::scenario::{Probe, Scenario, Vantage};
use crate::topology::{self, Topology};
use crate::voices::{Comparison, Disagreement, Flow, Seen, Voices, outcome_words};

/// What is asked of a scenario, and what is known beforehand.
pub(crate) struct Inquiry<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) documents: Vec<Document>,
    /// What the cluster's release writes, without foreign rules.
    pub(crate) released: Vec<Document>,
    pub(crate) topology: Topology,
    pub(super) asked: Vec<Question>,
    /// The questions as packets to send, in the same order.
    pub(crate) probes: Vec<Probe>,
    pub(super) promises: Promises<'a>,
    pub(super) comparison: Comparison,
}

impl<'a> Inquiry<'a> {
    /// What is asked of a scenario's first state.
    pub(crate) fn of(scenario: &'a Scenario) -> Result<Self, RunError> {
        let cluster = &scenario.cluster;
        let documents = documents::generate(scenario, cluster)?;
        let released = if scenario.rules.is_empty() {
            documents.clone()
        } else {
            documents::generate(&Scenario { rules: Vec::new(), ..scenario.clone() }, cluster)?
        };
        let topology = topology::plan(scenario);
        let vantages = vantages(scenario);
        let points: Vec<VantagePoint> = vantages.iter().map(|(point, _)| point.clone()).collect();
        let asked = questions(cluster, &points).map_err(DocumentError::from)?;
        let by_point: HashMap<&VantagePoint, &Vantage> =
            vantages.iter().map(|(point, vantage)| (point, vantage)).collect();
        let probes = asked.iter().map(|question| probe(scenario, question, by_point[&question.from])).collect();
        let comparison = Comparison::of(&topology, cluster).map_err(DocumentError::from)?;
        let promises = Promises::of(cluster).map_err(DocumentError::from)?;
        Ok(Self { cluster, documents, released, topology, asked, probes, promises, comparison })
    }

    /// How the voices part about a question: prediction and observation from what is promised, or from each other. Whether the
    /// network is to blame is not looked into. `rules` are those that are installed, `released` those that the release writes.
    pub(crate) fn part(
        &self,
        number: usize,
        flow: &Sent,
        rules: &Network<'_>,
        released: &Network<'_>,
        observed: &FlowObservation,
    ) -> Option<Disagreement> {
        let question = &self.asked[number];
        let promise: Promise = self.promises.about(question);
        let prediction = rules.predict(flow);
        let voices = Voices {
            comparison: &self.comparison,
            flow: Flow { question, source: observed.source.ip() },
            promise: &promise,
            prediction: prediction.as_ref(),
            in_order: &|| None,
            seen: &Seen::observed(observed),
        };
        let (disagreement, _) = voices.part()?;
        Some(unless_of_release(disagreement, prediction.as_ref(), || released.predict(flow)))
    }

    /// How outcomes of a question are told so that two have the same words where the promise does not tell them apart.
    pub(crate) fn words_of_what_is_promised(&self, number: usize) -> impl Fn(&Predicted) -> String {
        let promise = self.promises.about(&self.asked[number]);
        move |outcome| self.comparison.words(&promise, outcome)
    }
}

/// A known fault of a release is one only where the release's own rules do the same.
pub(super) fn unless_of_release(
    disagreement: Disagreement,
    prediction: Option<&Prediction>,
    released: impl FnOnce() -> Option<Prediction>,
) -> Disagreement {
    if disagreement != Disagreement::Known {
        return disagreement;
    }
    let outcomes = |prediction: &Prediction| -> BTreeSet<String> {
        prediction.branches.iter().map(|branch| outcome_words(&branch.outcome)).collect()
    };
    let is_of_release = prediction.map(outcomes) == released().as_ref().map(outcomes);
    if is_of_release { Disagreement::Known } else { Disagreement::Rules }
}
