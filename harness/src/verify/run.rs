//! One lab that answers a whole list of questions, compared with promise and prediction.

use svclab_rules::promise::Outcome;

use super::Options;
use super::finding::{Example, Findings};
use super::questions::QuestionList;
use super::verification::{AddressKind, Verification};
use crate::lab::with_lab;
use crate::predict::{Network, NewFlow, PredictedBranch};
use crate::probe::Prober;
use crate::run::RunError;
use crate::scenario::{Scenario, Span};
use crate::sources::Sources;

/// Asks all sources about a scenario's first state.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Verification, RunError> {
    let questions = QuestionList::of(scenario, options.backend)?;
    let QuestionList { cluster, documents, topology, asked, probes, .. } = &questions;
    let flows = with_lab(topology, documents, options.backend, |lab| {
        Prober::new(lab, cluster).and_then(|mut prober| prober.send_together(probes))
    })?;
    let span = || Span::start_of(&scenario.file);
    let flows = flows.map_err(|source| RunError::Probe { span: span(), source: Box::new(source) })?;
    let (context, released) = (questions.context(documents)?, questions.released()?);
    let mut verification =
        Verification { nodes: cluster.nodes.len(), services: cluster.services.len(), ..Verification::default() };
    let mut findings = Findings::default();
    for (number, observed) in flows.iter().enumerate() {
        let sent = NewFlow::of(&probes[number], observed.source.port());
        let sources = Sources::about(&context, &asked[number], &sent, observed);
        let disagreement = sources.disagreement_with(&released);
        let kind = AddressKind::of(cluster, asked[number].to.ip());
        verification.not_promised += usize::from(sources.promise.outcome == Outcome::NotPromised);
        verification.count(sent.from.to_string(), kind, disagreement.is_some());
        if let Some((disagreement, what)) = disagreement {
            findings.count(disagreement, what, || example(&sources, &sent, &context.network));
        }
    }
    verification.findings = findings.finish();
    Ok(verification)
}

fn example(sources: &Sources<'_, '_>, sent: &NewFlow, network: &Network<'_>) -> Example {
    let Sources { promise, prediction, seen, .. } = sources;
    let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice()).unwrap_or_default();
    let rules = |branch: &PredictedBranch| network.rules_met(&branch.stages).iter().map(ToString::to_string).collect();
    Example {
        flow: sent.to_string(),
        service: promise.service.clone(),
        promise: promise.outcome.to_string(),
        prediction: branches.iter().map(|branch| format!("{}: {}", branch.share, branch.outcome)).collect(),
        observation: seen.as_ref().map_or_else(|| "no packet was sent".to_owned(), ToString::to_string),
        rules: sources.branch_that_matters().map(rules).unwrap_or_default(),
    }
}
