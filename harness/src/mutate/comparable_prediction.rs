//! Predictions for flows, in a form that can be compared between mutants.

use std::collections::BTreeMap;

use svclab_rules::walk::Share;

use crate::predict::{Network, NewFlow, PredictedOutcome, Prediction};
use crate::sources::outcome_words;

/// The source port of flows that are only predicted.
pub(super) const SOURCE_PORT: u16 = 40_000;

/// The possible outcomes of a flow, each with its share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ComparablePrediction(BTreeMap<String, Share>);

impl ComparablePrediction {
    /// Returns the outcomes of a flow in a network, worded without their reasons.
    pub(super) fn predict_flow(network: &Network<'_>, flow: &NewFlow) -> Self {
        network.predict(flow).map(|prediction| Self::of(&prediction, &outcome_words)).unwrap_or_default()
    }

    /// Returns predicted outcomes, worded by `words`.
    pub(super) fn of(prediction: &Prediction, words: &dyn Fn(&PredictedOutcome) -> String) -> Self {
        let mut forecast = Self::default();
        for branch in &prediction.branches {
            let share = forecast.0.entry(words(&branch.outcome)).or_insert(Share::ZERO);
            *share = share.plus(branch.share);
        }
        forecast
    }

    /// Returns the forecast as text: `1/2: dropped; 1/2: delivered to ...`.
    pub(super) fn words(&self) -> String {
        let worded = |(outcome, share): (&String, &Share)| match *share {
            Share::ONE => outcome.clone(),
            share => format!("{share}: {outcome}"),
        };
        self.0.iter().map(worded).collect::<Vec<_>>().join("; ")
    }
}
