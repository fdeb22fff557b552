//! How a lab is asked everything, and held against promise and prediction.

use std::cell::LazyCell;

use svclab_rules::promise::Outcome;

use super::Options;
use super::finding::{Example, Findings};
use super::questions::QuestionList;
use super::verification::{AddressKind, Verification};
use crate::lab::with_lab;
use crate::predict::{Network, PredictedBranch, Sent};
use crate::probe::Prober;
use crate::run::RunError;
use crate::scenario::{Scenario, Span};
use crate::sources::{Sources, in_order, sent};

/// Asks all sources about a scenario's first state.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Verification, RunError> {
    let inquiry = QuestionList::of(scenario, options.backend)?;
    let QuestionList { cluster, documents, released, topology, asked, probes, .. } = &inquiry;
    let flows = with_lab(topology, documents, options.backend, |lab| {
        Prober::new(lab, cluster).and_then(|mut prober| prober.send_together(probes))
    })?;
    let span = || Span::start_of(&scenario.file);
    let flows = flows.map_err(|source| RunError::Probe { span: span(), source: Box::new(source) })?;
    let network = Network::of(topology, documents, cluster)?;
    let released = Network::of(topology, released, cluster)?;
    let in_order = in_order(topology);
    let in_order = LazyCell::new(|| Network::of(&in_order, documents, cluster).ok());
    let mut verification =
        Verification { nodes: cluster.nodes.len(), services: cluster.services.len(), ..Verification::default() };
    let mut findings = Findings::default();
    for (number, observed) in flows.iter().enumerate() {
        let sent = sent(&probes[number], observed.source.port());
        let sources = inquiry.sources(number, network.predict(&sent), observed);
        let predicted_in_order = || in_order.as_ref().and_then(|network| network.predict(&sent));
        let parted = sources.part_beside(&predicted_in_order, &|| released.predict(&sent));
        let kind = AddressKind::of(cluster, asked[number].to.ip());
        verification.not_promised += usize::from(sources.promise.outcome == Outcome::NotPromised);
        verification.count(sent.from.to_string(), kind, parted.is_some());
        if let Some((disagreement, what)) = parted {
            findings.count(disagreement, what, || example(&sources, &sent, &network));
        }
    }
    verification.findings = findings.finish();
    Ok(verification)
}

fn example(sources: &Sources<'_>, sent: &Sent, network: &Network<'_>) -> Example {
    let Sources { promise, prediction, seen, .. } = sources;
    let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice()).unwrap_or_default();
    let rules = |branch: &PredictedBranch| network.rules_met(&branch.stages).iter().map(ToString::to_string).collect();
    Example {
        flow: sent.to_string(),
        service: promise.service.clone(),
        promise: promise.outcome.to_string(),
        prediction: branches.iter().map(|branch| format!("{}: {}", branch.share, branch.outcome)).collect(),
        observation: seen.to_string(),
        rules: sources.branch_that_matters().map(rules).unwrap_or_default(),
    }
}
