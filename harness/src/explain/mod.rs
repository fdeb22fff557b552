//! The path of one packet, rule by rule, for a person who wants to understand it.
//!
//! [`explain`] asks two sources about a probe that was asked for: the promise, with the clauses that it rests on, and the
//! prediction, with every rule that the packet met on its way there and the answer on its way back:
//!
//! - `story`: a prediction becomes an [`Explanation`], a tree of plain values;
//! - `visits`: the rules met at a hook, each behind the jump that led to it; all others are counted;
//! - `iptables`, `nftables`: what a rule asks for and what it does, in words; `phrases`: those that both languages share;
//! - `text`, `mermaid`, `svg`: the page for a person, a flowchart, a picture; the values themselves are the JSON form.

mod call_tree;
mod explanation;
mod iptables;
mod mermaid;
mod model;
mod nftables;
mod phrases;
mod svg;
mod text;

use crate::documents::{self, Document};
use crate::infer::AdHocScenario;
use crate::lab::{Backend, LabError, generate_for_lab, with_lab};
use crate::observation::FlowObservation;
use crate::predict::{NO_ADDRESS, NewFlow, PredictError};
use crate::probe::{FIRST_PORT, ProbeError, Prober};
use crate::sources::{Context, FlowOutcome};
use crate::text::path_text;
use crate::topology::{self, Topology};
use crate::trace::{Traced, nearest, send_traced};
use svclab_rules::ruleset::Unsupported;

pub use mermaid::mermaid;
pub use model::{
    Because, Change, Explanation, FirstPacket, Kernel, Line, Matched, OutcomeKind, Part, Parting, Promised, Stop, Way,
};
pub use svg::svg;
pub use text::{Style, page};

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The rules cannot be written.
    #[error(transparent)]
    Documents(#[from] Unsupported),
    /// They cannot be walked.
    #[error(transparent)]
    Unwalkable(#[from] PredictError),
    /// No lab can be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The packet cannot be sent, or not be traced.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// Explains an ad-hoc probe. Without a source port of its own it has the first that a lab gives out; its family is the first that both
/// ends have. The outcome with the number `way`, from 1, is explained in full, however many there are.
///
/// # Errors
///
/// Where the cluster's rules cannot be written, or cannot be read.
pub fn explain(aimed: &AdHocScenario, step: usize, way: usize) -> Result<Explanation, ExplainError> {
    let port = aimed.probes[0].source_port.unwrap_or(FIRST_PORT);
    let documents = documents::generate(&aimed.scenario, &aimed.cluster)?;
    let topology = topology::plan_at(&aimed.scenario, &aimed.cluster);
    explanation(aimed, &topology, &documents, (step, way), port, None)
}

/// Explains a probe as [`explain`] does, sends it in a lab while the kernel traces the rules that it meets, and holds both ways
/// against each other. The calling process must be privileged: see [`crate::lab::become_privileged`].
///
/// # Errors
///
/// As [`explain`], and what keeps a lab from being built, a probe from being sent, or the kernel from being heard.
pub fn explain_live(aimed: &AdHocScenario, step: usize, backend: Backend) -> Result<Explanation, ExplainError> {
    let documents = generate_for_lab(&aimed.scenario, &aimed.cluster, backend)?;
    let topology = topology::plan_at(&aimed.scenario, &aimed.cluster);
    let sent = with_lab(&topology, &documents, backend, |lab| {
        let mut prober = Prober::new(lab, &aimed.cluster)?;
        send_traced(&mut prober, &aimed.probes[0])
    })?;
    let (flow, traced) = sent?;
    explanation(aimed, &topology, &documents, (step, 1), flow.source.port(), Some((&flow, traced.as_slice())))
}

/// Asks promise and prediction, and compares the rules that the kernel traced with the prediction.
fn explanation(
    aimed: &AdHocScenario,
    topology: &Topology,
    documents: &[Document],
    (step, way): (usize, usize),
    source_port: u16,
    kernel: Option<(&FlowObservation, &[Traced])>,
) -> Result<Explanation, ExplainError> {
    let AdHocScenario { scenario, cluster, probes, .. } = aimed;
    let context = Context::of::<ExplainError>(&scenario.hosts, topology, documents, cluster)?;
    let (probe, network) = (&probes[0], &context.network);
    let promise = context.question(probe).map(|question| context.promise(&question));
    let prediction = network.predict(&NewFlow::of(probe, source_port));
    let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice());
    let nearest = branches
        .zip(kernel)
        .and_then(|(branches, (flow, traced))| nearest(network, branches, traced, &FlowOutcome::observed(flow)));
    Ok(Explanation {
        version: 1,
        scenario: scenario.name.clone(),
        file: path_text(&scenario.file),
        step,
        packet: explanation::packet(probe, prediction.as_ref().map(|prediction| prediction.source)),
        promise: promise.as_ref().map(explanation::promised),
        unpredicted: prediction.is_none().then(|| NO_ADDRESS.to_owned()),
        ways: prediction
            .as_ref()
            .map(|prediction| explanation::ways(network, prediction, nearest.as_ref(), way.saturating_sub(1)))
            .unwrap_or_default(),
        kernel: kernel.map(|(flow, traced)| explanation::kernel(flow, traced, branches, nearest.as_ref())),
        families: probes.iter().skip(1).map(|probe| explanation::family(probe.to.address)).collect(),
    })
}
