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

use svclab_rules::promise::Promises;

use crate::documents::{self, Document, DocumentError};
use crate::infer::AdHocScenario;
use crate::lab::{Backend, LabError, generate_for_lab, with_lab};
use crate::observation::FlowObservation;
use crate::predict::{NO_ADDRESS, Network, PredictError};
use crate::probe::{FIRST_PORT, ProbeError, Prober};
use crate::scenario::Probe;
use crate::sources::{Seen, question, sent};
use crate::text::path_text;
use crate::topology::{self, Topology};
use crate::trace::{Traced, nearest, send_traced};

pub use mermaid::mermaid;
pub use model::{
    Because, Change, Explanation, Kernel, Line, Matched, Part, Parting, Promised, Sent as SentPacket, Stop, Verdict,
    Way,
};
pub use svg::svg;
pub use text::{Style, page};

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The rules cannot be written.
    #[error(transparent)]
    Documents(#[from] DocumentError),
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

/// What is asked about a probe: the state that it is sent in, and the sources that are.
struct Inquiry<'a> {
    aimed: &'a AdHocScenario,
    probe: &'a Probe,
    topology: Topology,
    documents: Vec<Document>,
}

/// Explains an ad-hoc probe. Without a source port of its own it has the first that a lab gives out; its family is the first that both
/// ends have. The outcome with the number `way`, from 1, is explained in full, however many there are.
///
/// # Errors
///
/// Where the cluster's rules cannot be written, or cannot be read.
pub fn explain(aimed: &AdHocScenario, step: usize, way: usize) -> Result<Explanation, ExplainError> {
    let inquiry = Inquiry::of(aimed, documents::generate(&aimed.scenario, &aimed.cluster)?);
    let port = inquiry.probe.source_port.unwrap_or(FIRST_PORT);
    inquiry.answer((step, way), port, None)
}

/// Explains a probe as [`explain`] does, sends it in a lab while the kernel traces the rules that it meets, and holds both ways
/// against each other. The calling process must be privileged: see [`crate::lab::become_privileged`].
///
/// # Errors
///
/// As [`explain`], and what keeps a lab from being built, a probe from being sent, or the kernel from being heard.
pub fn explain_live(aimed: &AdHocScenario, step: usize, backend: Backend) -> Result<Explanation, ExplainError> {
    let inquiry = Inquiry::of(aimed, generate_for_lab(&aimed.scenario, &aimed.cluster, backend)?);
    let sent = with_lab(&inquiry.topology, &inquiry.documents, backend, |lab| {
        let mut prober = Prober::new(lab, &aimed.cluster)?;
        send_traced(&mut prober, inquiry.probe)
    })?;
    let (flow, traced) = sent?;
    inquiry.answer((step, 1), flow.source.port(), Some((&flow, traced.as_slice())))
}

impl<'a> Inquiry<'a> {
    fn of(aimed: &'a AdHocScenario, documents: Vec<Document>) -> Self {
        let AdHocScenario { scenario, cluster, probes, .. } = aimed;
        Self { aimed, probe: &probes[0], topology: topology::plan_at(scenario, cluster), documents }
    }

    /// Asks promise and prediction, and holds what the kernel told against the latter.
    fn answer(
        &self,
        (step, way): (usize, usize),
        source_port: u16,
        kernel: Option<(&FlowObservation, &[Traced])>,
    ) -> Result<Explanation, ExplainError> {
        let AdHocScenario { scenario, cluster, probes, .. } = self.aimed;
        let promises = Promises::of(cluster).map_err(DocumentError::from)?;
        let promise = question(&scenario.hosts, &self.topology, self.probe).map(|question| promises.about(&question));
        let network = Network::of(&self.topology, &self.documents, cluster)?;
        let prediction = network.predict(&sent(self.probe, source_port));
        let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice());
        let nearest = branches
            .zip(kernel)
            .and_then(|(branches, (flow, traced))| nearest(&network, branches, traced, &Seen::observed(flow)));
        Ok(Explanation {
            version: 1,
            scenario: scenario.name.clone(),
            file: path_text(&scenario.file),
            step,
            packet: explanation::packet(self.probe, prediction.as_ref().map(|prediction| prediction.source)),
            promise: promise.as_ref().map(explanation::promised),
            unpredicted: prediction.is_none().then(|| NO_ADDRESS.to_owned()),
            ways: prediction
                .as_ref()
                .map(|prediction| explanation::ways(&network, prediction, nearest.as_ref(), way.saturating_sub(1)))
                .unwrap_or_default(),
            kernel: kernel.map(|(flow, traced)| explanation::kernel(flow, traced, branches, nearest.as_ref())),
            families: probes.iter().skip(1).map(|probe| explanation::family(probe.to.address)).collect(),
        })
    }
}
