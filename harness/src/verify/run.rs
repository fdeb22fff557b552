//! Compares promise and prediction of all packet classes, and one witness of each in a lab.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use svclab_rules::cascade;
use svclab_rules::coverage::Coverage;
use svclab_rules::promise::{Promise, PromisedOutcome, Question};

use super::Options;
use super::address_kinds::Kinds;
use super::boundaries::Boundaries;
use super::class_walk::{ClassWalk, PacketClass};
use super::finding::{Example, Findings};
use super::later_packets::{Depth, LaterFault};
use super::notes::{MAX_RESENDS, notes};
use super::prepared::{Prepared, vantages};
use super::tally::Tally;
use super::verification::Verification;
use crate::documents::Document;
use crate::input::STANDARD_INPUT;
use crate::lab::programs::on_all_cpus;
use crate::lab::{Lab, with_lab};
use crate::predict::{Network, NewFlow, PredictedBranch, Senders};
use crate::probe::{FIRST_PORT, Prober};
use crate::proxy::Proxies;
use crate::run::{RunError, in_parallel};
use crate::scenario::{Probe, Scenario, Span, Vantage};
use crate::sources::{Context, Disagreement, Sources};
use crate::text::{printable, shell_word};
use crate::topology;

/// The number of flows that are sent before progress is reported.
const AT_ONCE: usize = 2048;

/// A function that sends packets in a lab.
type Sending<'s> = Box<dyn FnOnce(&mut Lab) -> Result<(), RunError> + Send + 's>;

/// Compares all sources for a scenario's first state.
pub(super) fn run(scenario: &Scenario, options: &Options) -> Result<Verification, RunError> {
    let backend = options.backend;
    let Some(programs) = &options.programs else {
        let prepared = Prepared::of(scenario, backend)?;
        return verified(scenario, options, &prepared, |sending| {
            with_lab(&prepared.topology, &prepared.documents, backend, sending)?
        });
    };
    // Their rules are known only where the programs run.
    with_lab(&topology::plan(scenario), &[], backend, |lab| {
        let (_running, documents, _) = Proxies::install(lab, scenario, programs)?;
        let prepared = Prepared::with_documents(scenario, documents, backend)?;
        verified(scenario, options, &prepared, |sending| sending(lab))
    })?
}

/// Compares all sources; `in_lab` runs a function in a lab with the prepared documents.
fn verified(
    scenario: &Scenario,
    options: &Options,
    prepared: &Prepared<'_>,
    in_lab: impl FnOnce(Sending<'_>) -> Result<(), RunError>,
) -> Result<Verification, RunError> {
    let (context, released) = (prepared.context(&prepared.documents)?, prepared.released()?);
    let boundaries = Boundaries::of(prepared.cluster);
    let depth = Depth::of(&prepared.documents, !prepared.are_released(&prepared.documents));
    let verifying = Verifying {
        scenario,
        options,
        class_walk: ClassWalk::new(&context, &released, &boundaries, depth).at_most(options.max_classes),
        kinds: Kinds::of(prepared.cluster),
    };
    // The thread may be a lab's, which is bound to one CPU.
    let Part { mut tally, mut findings, witnesses } = on_all_cpus(|| verifying.ask_all());
    let with_connections = match scenario.connections.as_slice() {
        [] => None,
        entries => Some(prepared.context(&prepared.documents)?.with_connections(entries)),
    };
    let restored = with_connections.as_ref().map(|context| verifying.restored(context));
    let mut not_resent = 0;
    if options.no_lab {
        restored.iter().for_each(|restored| restored.ask((&mut tally, &mut findings)));
    } else if !witnesses.is_empty() || restored.is_some() {
        in_lab(Box::new(|lab| {
            let mut prober = Prober::new(lab, prepared.cluster).map_err(|source| verifying.error(source))?;
            not_resent = verifying.send_all(&mut prober, &witnesses, (&mut tally, &mut findings))?;
            restored.iter().try_for_each(|restored| restored.send(&mut prober, (&mut tally, &mut findings)))
        }))?;
    }
    let (nodes, services) = (prepared.cluster.nodes.len(), prepared.cluster.services.len());
    let verification = tally.into_verification(nodes, services, findings.finish());
    let has_failed = verification.failures(options).next().is_some();
    let structure_defects = if has_failed { structure_defects(&prepared.documents) } else { Vec::new() };
    let failing: BTreeSet<String> =
        verification.failures(options).filter_map(|finding| finding.example.service.clone()).collect();
    let differences = if has_failed { prepared.differences(&failing) } else { Vec::new() };
    let notes = notes(scenario, &verification.findings, not_resent, options);
    Ok(Verification { structure_defects, differences, notes, ..verification })
}

/// Defects in the structure of rules: `node/worker: ...`.
fn structure_defects(documents: &[Document]) -> Vec<String> {
    let of = |document: &Document| {
        let defects = cascade::structure_defects(&document.rules, &Coverage::all()).into_iter();
        defects.map(|defect| format!("{}, {}: {defect}", document.netns, document.family)).collect::<Vec<_>>()
    };
    documents.iter().flat_map(of).collect()
}

/// A verification in progress.
pub(super) struct Verifying<'v, 'a> {
    pub(super) scenario: &'v Scenario,
    pub(super) options: &'v Options,
    class_walk: ClassWalk<'v, 'a>,
    kinds: Kinds,
}

/// The outcome of the classes of some senders.
#[derive(Default)]
struct Part {
    tally: Tally,
    findings: Findings,
    /// The witnesses to send in a lab.
    witnesses: Vec<(Question, Probe)>,
}

impl<'a> Verifying<'_, 'a> {
    fn context(&self) -> &Context<'a> {
        self.class_walk.context
    }

    /// Walks the classes of all senders in parallel.
    fn ask_all(&self) -> Part {
        let all = vantages(self.scenario).into_iter();
        let chosen: Vec<Vantage> = all.filter(|vantage| self.options.selects_sender(vantage, self.scenario)).collect();
        let senders = Senders::of(&self.context().network, &chosen);
        let counting = self.options.progress.begin(0);
        let parts = in_parallel(
            &senders,
            None,
            |senders| {
                let mut part = Part::default();
                let class_count =
                    self.class_walk.all_judged(senders, Some(&*counting), |asked| self.ask(asked, &mut part));
                part.tally.add_classes(class_count);
                part
            },
            &|_| {},
        );
        let mut whole = Part::default();
        for part in parts {
            whole.tally.merge(part.tally);
            whole.findings.merge(part.findings);
            whole.witnesses.extend(part.witnesses);
        }
        whole
    }

    /// Examines one class: queues a witness if a lab can send it, otherwise compares promise and prediction only.
    /// Returns whether all predictions for it are known to be as promised.
    fn ask(&self, asked: PacketClass<'_>, part: &mut Part) -> bool {
        if !self.options.selects_service(asked.promise.service.as_deref()) {
            return false;
        }
        let is_sound = asked.later.fault.is_none();
        if let Some(fault) = &asked.later.fault {
            let (disagreement, what) = judged(&asked, fault);
            part.findings.count(disagreement, what, false, || self.example_of_later(&asked, fault));
        }
        match asked.probe(self.scenario).filter(|_| !self.options.no_lab) {
            Some(probe) => {
                part.witnesses.push((asked.question, probe));
                false
            }
            None => {
                let (sent, question) = (asked.flow(), asked.question.clone());
                let sources = asked.into_sources(self.context(), &question);
                self.count(&sources, &sent, &question, (&mut part.tally, &mut part.findings)) && is_sound
            }
        }
    }

    /// Sends all witnesses through a lab. Returns the number of contradicted flows that were not sent again.
    fn send_all(
        &self,
        prober: &mut Prober<'_>,
        witnesses: &[(Question, Probe)],
        (tally, findings): (&mut Tally, &mut Findings),
    ) -> Result<usize, RunError> {
        let times = self.options.repeat.map_or(1, NonZeroUsize::get);
        let counting = self.options.progress.begin((witnesses.len() * times) as u64);
        let mut resent = 0;
        let mut not_resent = 0;
        for together in (0..times).flat_map(|_| witnesses.chunks(AT_ONCE)) {
            let probes: Vec<Probe> = together.iter().map(|(_, probe)| probe.clone()).collect();
            let flows = prober.send_all(&probes).map_err(|source| self.error(source))?;
            for ((question, probe), observed) in together.iter().zip(&flows) {
                let sent = NewFlow::of(probe, observed.source.port());
                let sources = Sources::about(self.context(), question, &sent, observed);
                let found = sources.disagreement_with(self.class_walk.released);
                let counts = (&mut *tally, &mut *findings);
                let is_contradicted = found.as_ref().is_some_and(|(found, _)| found.contradicts_prediction());
                if is_contradicted && resent < MAX_RESENDS {
                    resent += self.resend(prober, (question, probe), (&sources, &sent), found, counts)?;
                } else {
                    not_resent += usize::from(is_contradicted);
                    self.count_as(&sources, &sent, question, found, counts);
                }
            }
            counting.counted(together.len() as u64);
        }
        Ok(not_resent)
    }

    /// Sends a witness again, alone, and counts that flow: what the kernel did with the first one may depend on earlier witnesses. Returns
    /// how many times it was sent.
    fn resend(
        &self,
        prober: &mut Prober<'_>,
        (question, probe): (&Question, &Probe),
        (first, first_sent): (&Sources<'_, '_>, &NewFlow),
        found: Option<(Disagreement, String)>,
        counts: (&mut Tally, &mut Findings),
    ) -> Result<usize, RunError> {
        let mut broken = None;
        for times in 1..=times_alone(first) {
            let observed = prober.send_alone(probe).map_err(|source| self.error(source))?;
            let sent = NewFlow::of(probe, observed.source.port());
            let sources = Sources::about(self.context(), question, &sent, &observed);
            let alone = sources.disagreement_with(self.class_walk.released);
            if alone.as_ref().is_some_and(|(found, _)| found.contradicts_prediction()) {
                self.count_as(&sources, &sent, question, alone, counts);
                return Ok(times);
            }
            broken = alone.or(broken);
        }
        // Rules that break the promise do so alone, too.
        let found = broken.or_else(|| found.map(|(_, what)| (Disagreement::EarlierPackets, what)));
        self.count_as(first, first_sent, question, found, counts);
        Ok(times_alone(first))
    }

    pub(super) fn error(&self, source: crate::probe::ProbeError) -> RunError {
        RunError::Probe { span: Span::start_of(&self.scenario.file), source: Box::new(source) }
    }

    /// Counts a flow, and returns whether all sources agree on it.
    pub(super) fn count(
        &self,
        sources: &Sources<'_, '_>,
        sent: &NewFlow,
        question: &Question,
        counts: (&mut Tally, &mut Findings),
    ) -> bool {
        let found = sources.disagreement_with(self.class_walk.released);
        let agrees = found.is_none();
        self.count_as(sources, sent, question, found, counts);
        agrees
    }

    /// Counts a flow whose sources disagree as found.
    fn count_as(
        &self,
        sources: &Sources<'_, '_>,
        sent: &NewFlow,
        question: &Question,
        found: Option<(Disagreement, String)>,
        (tally, findings): (&mut Tally, &mut Findings),
    ) {
        let kind = self.kinds.kind(question.to.ip());
        let is_promised = sources.promise.outcome != PromisedOutcome::NotPromised;
        tally.count(&sent.from, kind, is_promised, found.is_some());
        if let Some((disagreement, what)) = found {
            findings.count(disagreement, what, sources.seen.is_some(), || self.example(sources, sent));
        }
    }

    fn example(&self, sources: &Sources<'_, '_>, sent: &NewFlow) -> Example {
        let network: &Network<'_> = &self.context().network;
        let Sources { promise, prediction, seen, .. } = sources;
        let rules = |branch: &PredictedBranch| network.decisive_rules(branch).iter().map(ToString::to_string).collect();
        Example {
            flow: sent.to_string(),
            service: promise.service.clone(),
            promise: promised(promise),
            prediction: prediction.as_ref().map(|prediction| prediction.outcome_lines(usize::MAX)).unwrap_or_default(),
            is_observed: seen.is_some(),
            observation: seen.as_ref().map_or_else(|| not_sent(sent), ToString::to_string),
            rules: sources.branch_that_matters().map(rules).unwrap_or_default(),
            explain: sent.source.is_none().then(|| self.explain_command(sent)),
        }
    }

    /// The same for a fault of packets after the first. `explain` only shows first packets.
    fn example_of_later(&self, asked: &PacketClass<'_>, fault: &LaterFault) -> Example {
        let mut sources = asked.sources(self.context());
        let explains_first = fault.prediction.is_none();
        sources.prediction = fault.prediction.clone().or(sources.prediction);
        let example = self.example(&sources, &asked.flow());
        let observation = "no packet was sent: a lab sends only the first packet of a connection".to_owned();
        Example { explain: example.explain.filter(|_| explains_first), observation, ..example }
    }

    /// The command that explains a flow.
    fn explain_command(&self, sent: &NewFlow) -> String {
        let NewFlow { from, to, protocol, source_port, via, source: _, shape: _ } = sent;
        let to = via.as_ref().map_or(to.to_string(), |node| format!("{to}@{node}"));
        let (from, to) = (shell_word(&from.to_string()), shell_word(&to));
        let port = if *source_port == DEFAULT_PORT { String::new() } else { format!(" --source-port={source_port}") };
        let is_restored =
            self.scenario.connections.iter().any(|entry| entry.to == sent.to && entry.from.port() == *source_port);
        let port = if is_restored { format!("{port} --connections") } else { port };
        let file = printable(&self.scenario.file).to_string();
        // A file name that starts with a hyphen would be parsed as an option.
        let file = if file == STANDARD_INPUT { "-".to_owned() } else { shell_word(&file) };
        let release = self.options.release.as_ref().map(|release| format!(" --release={release}")).unwrap_or_default();
        let programs = self.options.programs.as_ref();
        let programs = programs.map(|programs| format!(" {}", programs.options())).unwrap_or_default();
        format!("svclab explain --from={from} --to={to} --protocol={protocol}{port}{release}{programs} -- {file}")
    }
}

/// How a fault of packets after the first counts: it is not known to be one if it may depend on interfaces that the text does not show.
fn judged(asked: &PacketClass<'_>, fault: &LaterFault) -> (Disagreement, String) {
    let predictions = fault.prediction.iter().chain([&asked.prediction]);
    let mut branches = predictions.flat_map(|prediction| &prediction.branches);
    match branches.any(|branch| branch.assumptions.depends_on_interfaces()) {
        true if fault.disagreement != Disagreement::Unknown => {
            (Disagreement::NotShown, format!("depends on interfaces that the text does not show: {}", fault.what))
        }
        _ => (fault.disagreement, fault.what.clone()),
    }
}

/// A promise in words. A packet to be dropped must be dropped by the node that handles it.
fn promised(promise: &Promise) -> String {
    match (&promise.outcome, &promise.node) {
        (outcome @ (PromisedOutcome::Dropped | PromisedOutcome::Fails), Some(node)) => {
            format!("{outcome} on node/{node}")
        }
        (outcome, _) => outcome.to_string(),
    }
}

/// Why there is no observation of a flow.
fn not_sent(sent: &NewFlow) -> String {
    match sent.source {
        Some(source) => format!("no packet was sent: no host of the lab has the address {source}"),
        None => "no packet was sent".to_owned(),
    }
}

/// How many times a contradicted flow is sent alone until it is contradicted again. A random choice may avoid the endpoint at fault: of two
/// endpoints, one in 256 times.
fn times_alone(sources: &Sources<'_, '_>) -> usize {
    const PER_BRANCH: usize = 4;
    const MOST: usize = 32;
    let branches = sources.prediction.as_ref().map_or(1, |prediction| prediction.branches.len());
    if branches <= 1 { 1 } else { MOST.min(PER_BRANCH * branches) }
}

/// The default source port of `svclab explain`.
const DEFAULT_PORT: u16 = FIRST_PORT;
