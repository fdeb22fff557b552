//! Promise and prediction of all classes of packets, and one witness of each in a lab.

use svclab_rules::promise::{Outcome, Question};
use svclab_rules::walk::{Field, Intervals};

use super::Options;
use super::boundaries::Boundaries;
use super::clients::{affinity_fault, segment_fault};
use super::finding::{Example, Findings};
use super::kinds::Kinds;
use super::questions::{QuestionList, probe, vantages};
use super::survey::{Asked, Surveyed, survey};
use super::verification::Verification;
use crate::lab::with_lab;
use crate::predict::{Network, NewFlow, PredictedBranch, Senders};
use crate::probe::{FIRST_PORT, Prober};
use crate::run::RunError;
use crate::scenario::{Probe, Scenario, Span, Vantage};
use crate::sources::{Context, Disagreement, Sources};
use crate::text::printable;

/// Compares all sources about a scenario's first state.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Verification, RunError> {
    let prepared = QuestionList::prepare(scenario, options.backend)?;
    let (context, released) = (prepared.context(&prepared.documents)?, prepared.released()?);
    let mut verifying = Verifying {
        scenario,
        options,
        context: &context,
        released: &released,
        boundaries: Boundaries::of(prepared.cluster),
        kinds: Kinds::of(prepared.cluster),
        verification: Verification {
            nodes: prepared.cluster.nodes.len(),
            services: prepared.cluster.services.len(),
            ..Verification::default()
        },
        findings: Findings::default(),
        asks_flags: prepared.documents.iter().any(|document| document.rules.asks_tcp_flags()),
        witnesses: Vec::new(),
    };
    verifying.ask_all();
    if !verifying.witnesses.is_empty() {
        let probes: Vec<Probe> = verifying.witnesses.iter().map(|(_, probe)| probe.clone()).collect();
        let flows = with_lab(&prepared.topology, &prepared.documents, options.backend, |lab| {
            Prober::new(lab, prepared.cluster).and_then(|mut prober| prober.send_together(&probes))
        })?;
        let span = || Span::start_of(&scenario.file);
        let flows = flows.map_err(|source| RunError::Probe { span: span(), source: Box::new(source) })?;
        for (number, observed) in flows.iter().enumerate() {
            let (question, probe) = verifying.witnesses[number].clone();
            let sent = NewFlow::of(&probe, observed.source.port());
            let sources = Sources::about(&context, &question, &sent, observed);
            verifying.count(&sources, &sent, &question);
        }
    }
    let Verifying { mut verification, findings, .. } = verifying;
    verification.findings = findings.finish();
    Ok(verification)
}

/// A verification on its way.
struct Verifying<'v, 'a> {
    scenario: &'v Scenario,
    options: &'v Options,
    context: &'v Context<'a>,
    released: &'v Network<'a>,
    boundaries: Boundaries,
    kinds: Kinds,
    verification: Verification,
    findings: Findings,
    /// Whether rules compare the flags of TCP.
    asks_flags: bool,
    /// What is sent in a lab.
    witnesses: Vec<(Question, Probe)>,
}

impl Verifying<'_, '_> {
    /// Goes through the classes of all senders.
    fn ask_all(&mut self) {
        let all = vantages(self.scenario).into_iter().map(|(_, vantage)| vantage);
        let chosen: Vec<Vantage> = all.filter(|vantage| self.options.selects_sender(vantage, self.scenario)).collect();
        let context = self.context;
        let boundaries = std::mem::take(&mut self.boundaries);
        for senders in Senders::of(&context.network, &chosen) {
            let Surveyed { classes, left_out } = survey(context, &boundaries, &senders, |asked| self.ask(&asked));
            self.verification.classes += classes;
            self.verification.left_out += left_out;
        }
    }

    /// Asks about one class: by a witness in a lab, where one can send it, else by promise and prediction alone.
    fn ask(&mut self, asked: &Asked<'_>) {
        if self.options.service.is_some() {
            let promise = self.context.promise(&asked.question);
            if !self.options.selects_service(promise.service.as_deref()) {
                return;
            }
        }
        let later = self.asks_flags.then(|| segment_fault(self.context, asked)).flatten();
        if let Some(what) = later.or_else(|| affinity_fault(self.context, asked)) {
            let sources = sources(self.context, asked);
            let sent = flow_of(asked);
            let command = self.explain_command(&sent);
            self.findings
                .count(Disagreement::Rules, what, false, || example(&sources, &sent, &self.context.network, command));
        }
        // A lab chooses the ports that it sends from.
        let ports = Intervals::between(FIRST_PORT.into(), u16::MAX.into());
        let is_any = ports.without(&asked.region[Field::SourcePort]).is_empty();
        if !self.options.no_lab && asked.senders.has(&asked.packet) && is_any {
            self.witnesses.push((asked.question.clone(), probe(self.scenario, &asked.question, asked.vantage)));
            return;
        }
        let sources = sources(self.context, asked);
        self.count(&sources, &flow_of(asked), &asked.question);
    }

    fn count(&mut self, sources: &Sources<'_, '_>, sent: &NewFlow, question: &Question) {
        let disagreement = sources.disagreement_with(self.released);
        let kind = self.kinds.kind(question.to.ip());
        self.verification.not_promised += usize::from(sources.promise.outcome == Outcome::NotPromised);
        self.verification.count(sent.from.to_string(), kind, disagreement.is_some());
        if let Some((disagreement, what)) = disagreement {
            let command = self.explain_command(sent);
            self.findings.count(disagreement, what, sources.seen.is_some(), || {
                example(sources, sent, &self.context.network, command)
            });
        }
    }

    /// The command that explains a flow.
    fn explain_command(&self, sent: &NewFlow) -> String {
        let via = sent.via.as_ref().map(|node| format!("@{node}")).unwrap_or_default();
        let file = printable(&self.scenario.file);
        let NewFlow { from, to, protocol, source_port, .. } = sent;
        let port = if *source_port == DEFAULT_PORT { String::new() } else { format!(" --source-port {source_port}") };
        format!("svclab explain {file} --from {from} --to {to}{via} --protocol {protocol}{port}")
    }
}

/// The source port that `svclab explain` takes where none is given.
const DEFAULT_PORT: u16 = FIRST_PORT;

fn sources<'c, 'a>(context: &'c Context<'a>, asked: &'c Asked<'_>) -> Sources<'c, 'a> {
    let sent = (asked.senders, &asked.packet);
    Sources::about_packet(context, &asked.question, sent, asked.prediction.clone())
}

fn flow_of(asked: &Asked<'_>) -> NewFlow {
    let source_port = asked.packet.transport.ports().map_or(0, |(source, _)| source);
    NewFlow {
        from: asked.vantage.clone(),
        source_port,
        to: asked.question.to,
        protocol: asked.question.protocol,
        via: asked.senders.via.clone(),
    }
}

fn example(sources: &Sources<'_, '_>, sent: &NewFlow, network: &Network<'_>, command: String) -> Example {
    let Sources { promise, prediction, seen, .. } = sources;
    let branches = prediction.as_ref().map(|prediction| prediction.branches.as_slice()).unwrap_or_default();
    let rules = |branch: &PredictedBranch| network.rules_met(&branch.stages).iter().map(ToString::to_string).collect();
    Example {
        flow: sent.to_string(),
        service: promise.service.clone(),
        promise: promise.outcome.to_string(),
        prediction: branches.iter().map(|branch| format!("{}: {}", branch.share, branch.outcome)).collect(),
        is_observed: seen.is_some(),
        observation: seen.as_ref().map_or_else(|| "no packet was sent".to_owned(), ToString::to_string),
        rules: sources.branch_that_matters().map(rules).unwrap_or_default(),
        explain: command,
    }
}
