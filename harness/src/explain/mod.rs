//! Explains the path of one packet, rule by rule.
//!
//! [`explain`] combines two sources for an ad-hoc probe: the promise, with the clauses that it is based on, and the prediction, with every
//! rule that matches the packet and its reply:
//!
//! - `explanation`: converts a prediction into an [`Explanation`], the tree of plain values in `model`;
//! - `call_tree`: the rules matched at a hook, each after the jump to its chain; all others are counted;
//! - `iptables`, `nftables`: descriptions of the conditions and effects of rules; `phrases`: those that both languages share;
//! - `text`, `mermaid`, `svg`: the text page, a flowchart, a picture; the values themselves are the JSON form.

mod call_tree;
mod explanation;
mod iptables;
mod mermaid;
mod model;
mod nftables;
mod phrases;
mod svg;
mod text;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::documents::{self, Document};
use crate::infer::{AdHocProbe, AdHocScenario, with_files};
use crate::lab::{self, Backend, Lab, generate_counting, with_lab};
use crate::observation::FlowObservation;
use crate::predict::{NO_ADDRESS, NewFlow};
use crate::probe::{FIRST_PORT, Prober};
use crate::proxy::{self, Programs, Proxies};
use crate::report::Trouble;
use crate::run::{RunError, guarded};
use crate::scenario::Scenario;
use crate::sources::{Context, Disagreement, FlowOutcome, Sources, rule_differences};
use crate::text::path_text;
use crate::topology::{self, Topology};
use crate::trace::{Traced, nearest, send_traced};
use crate::worker::{self, Kind, Slot, Texts, WorkerError, WorkerLocation, misread, not_applicable};

pub use mermaid::mermaid;
pub use model::{
    Change, Divergence, ExplainedPromise, Explanation, FirstPacket, HookVisit, KernelRun, Matched, OutcomeKind, Path,
    Proportion, Reason, RuleVisit, StoppedProxy,
};
pub use svg::svg;
pub use text::page;

/// Explains an ad-hoc probe. Without an explicit source port, it has the first port that a lab assigns; its family is the first that both
/// ends have. The path with the number `path`, from 1, is complete, no matter how many paths there are.
///
/// # Errors
///
/// If the cluster's rules cannot be generated or parsed.
pub fn explain(ad_hoc: &AdHocScenario, step: usize, path: usize) -> Result<Explanation, Trouble> {
    predicted(ad_hoc, step, path).map_err(RunError::into_trouble)
}

fn predicted(ad_hoc: &AdHocScenario, step: usize, path: usize) -> Result<Explanation, RunError> {
    let port = ad_hoc.probes[0].source_port.unwrap_or(FIRST_PORT);
    let documents = documents::generate(&ad_hoc.scenario, &ad_hoc.cluster)?;
    let topology = topology::plan_at(&ad_hoc.scenario, &ad_hoc.cluster);
    explanation(ad_hoc, &topology, &documents, (step, path), port, None)
}

/// Explains a probe as [`explain`] does, sends it in a lab while the kernel traces the rules that it matches, and compares
/// both. The calling process must be privileged: see [`become_privileged`](crate::testing::become_privileged).
///
/// The lab is in `worker`, if given: a machine with a kernel, or a process of svclab, which [`serve`]s with the arguments
/// [`WORKER`](crate::worker::WORKER) and `explain`. It reads the files in [`Scenario::inputs`](crate::scenario::Scenario::inputs) again.
///
/// # Errors
///
/// As [`explain`], and if a lab cannot be built, a probe cannot be sent, or the kernel's trace cannot be read.
pub fn explain_live(
    ad_hoc: &AdHocScenario,
    step: usize,
    backend: Backend,
    worker: Option<&WorkerLocation>,
) -> Result<Explanation, Trouble> {
    let TracedProbe { flow, traced, counts } = match worker {
        Some(location) => {
            let order = Order { scenario: Texts::of(&ad_hoc.scenario), probe: Cow::Borrowed(&ad_hoc.asked), backend };
            let sent = Slot::new(location, Kind::Explain).ask(&order, &Arc::default());
            sent.map_err(WorkerError::into_trouble)?
        }
        None => sent(ad_hoc, backend)?,
    };
    let explained = || {
        let documents = generate_counting(&ad_hoc.scenario, &ad_hoc.cluster, counts)?;
        let topology = topology::plan_at(&ad_hoc.scenario, &ad_hoc.cluster);
        explanation(ad_hoc, &topology, &documents, (step, 1), flow.source.port(), Some((&flow, traced.as_slice())))
    };
    explained().map_err(RunError::into_trouble)
}

/// Explains a probe with the rules that programs write, in a lab of this process: only predicted, as [`explain`] does, or also sent, as
/// [`explain_live`] does. The calling process must be privileged.
///
/// # Errors
///
/// As [`explain_live`], and if the programs cannot carry out the scenario or write their rules.
pub fn explain_with_programs(
    ad_hoc: AdHocScenario,
    programs: &Programs,
    (step, path): (usize, usize),
    backend: Backend,
    is_live: bool,
) -> Result<Explanation, Trouble> {
    let scenario = proxy::fit(Some(programs), &ad_hoc.scenario).map_err(|why| not_applicable(&why))?.into_owned();
    let mut cluster = ad_hoc.cluster;
    cluster.copy_releases_from(&scenario.cluster);
    let ad_hoc = AdHocScenario { scenario, cluster, ..ad_hoc };
    let AdHocScenario { scenario, cluster, probes, .. } = &ad_hoc;
    let topology = topology::plan_at(scenario, cluster);
    let explained = || {
        with_lab(&topology, &[], backend, |lab| {
            let (mut proxies, mut documents, _) = Proxies::install(lab, scenario, programs)?;
            for (change, state) in scenario.changed_states().take(step) {
                (documents, _) = proxies.apply(lab, scenario, state, change.restarted())?;
            }
            let sent = is_live.then(|| send(lab, &ad_hoc)).transpose()?;
            let given = probes[0].source_port.unwrap_or(FIRST_PORT);
            let port = sent.as_ref().map_or(given, |(flow, _)| flow.source.port());
            let kernel = sent.as_ref().map(|(flow, traced)| (flow, traced.as_slice()));
            explanation(&ad_hoc, &topology, &documents, (step, path), port, kernel)
        })?
    };
    guarded(explained).map_err(RunError::into_trouble)
}

/// Explains a probe as [`explain`] does, in a running lab, with the rules that are installed there. If requested, it is also sent, as
/// [`explain_live`] does.
///
/// # Errors
///
/// As [`explain_live`].
pub(crate) fn explain_in(
    ad_hoc: &AdHocScenario,
    prober: &mut Prober<'_>,
    documents: &[Document],
    (step, path): (usize, usize),
    is_live: bool,
) -> Result<Explanation, RunError> {
    let sent = is_live.then(|| send_traced(prober, &ad_hoc.probes[0]).map_err(RunError::Prober)).transpose()?;
    let given = ad_hoc.probes[0].source_port.unwrap_or(FIRST_PORT);
    let port = sent.as_ref().map_or(given, |(flow, _)| flow.source.port());
    let kernel = sent.as_ref().map(|(flow, traced)| (flow, traced.as_slice()));
    let topology = topology::plan_at(&ad_hoc.scenario, &ad_hoc.cluster);
    explanation(ad_hoc, &topology, documents, (step, path), port, kernel)
}

/// A probe that was sent.
#[derive(Serialize, Deserialize)]
struct TracedProbe {
    flow: FlowObservation,
    traced: Vec<Traced>,
    /// Whether kube-proxy counts with nfacct on the lab's kernel.
    counts: bool,
}

/// Sends a probe in a lab of this process.
fn sent(ad_hoc: &AdHocScenario, backend: Backend) -> Result<TracedProbe, Trouble> {
    let sent = || {
        let counts = lab::counts(&ad_hoc.cluster.proxy, backend);
        let documents = generate_counting(&ad_hoc.scenario, &ad_hoc.cluster, counts)?;
        let topology = topology::plan_at(&ad_hoc.scenario, &ad_hoc.cluster);
        let sent = with_lab(&topology, &documents, backend, |lab| send(lab, ad_hoc))?;
        sent.map(|(flow, traced)| TracedProbe { flow, traced, counts })
    };
    sent().map_err(RunError::into_trouble)
}

/// Sends a probe in a lab with installed rules.
fn send(lab: &mut Lab, ad_hoc: &AdHocScenario) -> Result<(FlowObservation, Vec<Traced>), RunError> {
    lab.restore(ad_hoc.scenario.connections_with(&ad_hoc.cluster))?;
    let mut prober = Prober::new(lab, &ad_hoc.cluster).map_err(RunError::Prober)?;
    send_traced(&mut prober, &ad_hoc.probes[0]).map_err(RunError::Prober)
}

/// A probe that a worker sends.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    probe: Cow<'a, AdHocProbe>,
    backend: Backend,
}

/// Serves [`explain_live`] as the process of a lab, over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a command.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, _, _| {
        let (text, file) = order.scenario.text();
        let ad_hoc = with_files(text, file, &order.probe, &|file| order.scenario.read(file));
        let mut ad_hoc = ad_hoc.map_err(|errors| misread(&errors))?;
        order.scenario.choose_proxy(&mut ad_hoc.cluster);
        sent(&ad_hoc, order.backend)
    })
}

/// Combines promise and prediction, and compares the rules that the kernel traced with the prediction.
fn explanation(
    ad_hoc: &AdHocScenario,
    topology: &Topology,
    documents: &[Document],
    (step, path): (usize, usize),
    source_port: u16,
    kernel: Option<(&FlowObservation, &[Traced])>,
) -> Result<Explanation, RunError> {
    let AdHocScenario { scenario, cluster, probes, .. } = ad_hoc;
    let context = Context::of::<RunError>(&scenario.hosts, topology, documents, cluster)?;
    let context = context.with_connections(scenario.connections_with(cluster));
    let (probe, network) = (&probes[0], &context.network);
    let promise = context.question(probe).map(|question| context.promise(&question));
    let prediction = network.predict(&NewFlow::of(probe, source_port));
    let differences = rule_differences_of(ad_hoc, &context, documents, &NewFlow::of(probe, source_port))?;
    let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice());
    let nearest = branches
        .zip(kernel)
        .and_then(|(branches, (flow, traced))| nearest(network, branches, traced, &FlowOutcome::observed(flow)));
    Ok(Explanation {
        scenario: scenario.name.clone(),
        file: path_text(&scenario.file),
        step,
        stopped: explanation::stopped(scenario, step),
        ignored_rules: scenario.ignored_rules.clone(),
        packet: explanation::packet(probe, prediction.as_ref().map(|prediction| prediction.source)),
        promise: promise.as_ref().map(explanation::promised),
        unpredicted: prediction.is_none().then(|| NO_ADDRESS.to_owned()),
        rule_differences: differences,
        paths: prediction
            .as_ref()
            .map(|prediction| explanation::paths(network, prediction, nearest.as_ref(), path.saturating_sub(1)))
            .unwrap_or_default(),
        kernel: kernel.map(|(flow, traced)| explanation::kernel(flow, traced, branches, nearest.as_ref())),
        families: probes.iter().skip(1).map(|probe| explanation::family(probe.to.address)).collect(),
    })
}

/// How rules differ from those that kube-proxy writes, if they are why a flow does not keep its promise.
fn rule_differences_of(
    ad_hoc: &AdHocScenario,
    context: &Context<'_>,
    documents: &[Document],
    sent: &NewFlow,
) -> Result<Vec<String>, RunError> {
    let AdHocScenario { scenario, cluster, probes, .. } = ad_hoc;
    let Some(question) = context.question(&probes[0]) else { return Ok(Vec::new()) };
    let sources = Sources::about_flow(context, &question, sent);
    let disagreement = sources.as_ref().and_then(Sources::disagreement);
    if disagreement.is_none_or(|(disagreement, _)| disagreement != Disagreement::Rules) {
        return Ok(Vec::new());
    }
    let released = documents::generate(&Scenario { rules: Vec::new(), ..scenario.clone() }, cluster)?;
    let services = sources.and_then(|sources| sources.promise.service).into_iter().collect();
    Ok(rule_differences([documents, &released], cluster, &services))
}
