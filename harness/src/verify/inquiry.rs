//! Everything about a scenario's first state that is needed to ask the voices.

use std::collections::HashMap;

use svclab_rules::cluster::Cluster;
use svclab_rules::promise::{Promise, Promises, Question, VantagePoint, questions};

use super::survey::{probe, vantages};
use crate::documents::{self, Document, DocumentError};
use crate::observation::FlowObservation;
use crate::predict::Prediction;
use crate::run::RunError;
use crate::scenario::{Probe, Scenario, Vantage};
use crate::topology::{self, Topology};
use crate::voices::{Comparison, Flow, Seen, Voices};

/// What is asked of a scenario, and what is known beforehand.
pub(crate) struct Inquiry<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) documents: Vec<Document>,
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
        let topology = topology::plan(scenario);
        let vantages = vantages(scenario);
        let points: Vec<VantagePoint> = vantages.iter().map(|(point, _)| point.clone()).collect();
        let asked = questions(cluster, &points).map_err(DocumentError::from)?;
        let by_point: HashMap<&VantagePoint, &Vantage> =
            vantages.iter().map(|(point, vantage)| (point, vantage)).collect();
        let probes = asked.iter().map(|question| probe(scenario, question, by_point[&question.from])).collect();
        let comparison = Comparison::of(&topology, cluster).map_err(DocumentError::from)?;
        let promises = Promises::of(cluster).map_err(DocumentError::from)?;
        Ok(Self { cluster, documents, topology, asked, probes, promises, comparison })
    }

    /// Whether a verification fails at a question: what is predicted of it and what was seen are not both as promised. Why it
    /// fails is not looked into.
    pub(crate) fn fails(&self, number: usize, prediction: Option<&Prediction>, observed: &FlowObservation) -> bool {
        let question = &self.asked[number];
        let promise: Promise = self.promises.about(question);
        let voices = Voices {
            comparison: &self.comparison,
            flow: Flow { question, source: observed.source.ip() },
            promise: &promise,
            prediction,
            in_order: &|| None,
            seen: &Seen::observed(observed),
        };
        voices.part().is_some_and(|(disagreement, _)| disagreement.fails(false))
    }
}
