//! A change during which flows are sent.

use std::thread;
use std::time::Instant;

use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::promise::{Promises, Question};
use svclab_rules::ruleset::Unsupported;

use super::super::RunError;
use super::advance::{GeneratorChange, ProgramsChange};
use super::{Session, sync_times};
use crate::documents::Document;
use crate::judge::{during_parts, judge_during};
use crate::lab::Lab;
use crate::observation::{Observation, Promised, StreamContext, StreamedFlow};
use crate::probe::{ChangeProgress, Stream};
use crate::proxy::Proxies;
use crate::report::{ProbeReport, probe_words};
use crate::scenario::{During, DuringProbe, Probe, Vantage};
use crate::sources::question;
use crate::topology::Topology;

impl Session<'_, '_> {
    /// Makes a change while flows are sent, and judges their outcomes.
    pub(super) fn during(&mut self, during: &During) -> Result<Vec<ProbeReport>, RunError> {
        let begin = Instant::now();
        let before = self.cluster.clone();
        let after = during.change.state_after(&before).clone();
        let plan = self.prober.lab().plan_at(self.scenario, &after);
        let contexts = during.probes.iter().map(|probe| self.stream_context(during, probe, (&before, &after), &plan));
        let contexts = contexts.collect::<Result<Vec<_>, RunError>>()?;
        self.prober.follow(&union_of_states(&before, &after))?;
        let (streamed, documents) = match self.proxies.take() {
            Some(mut proxies) => {
                let made = self.with_programs(during, &after, plan, &mut proxies);
                self.proxies = Some(proxies);
                made?
            }
            None => self.with_generator(during, &after, plan)?,
        };
        self.become_state(&after, documents)?;
        let mut reports = Vec::with_capacity(contexts.len());
        for ((DuringProbe { probe, .. }, context), flows) in during.probes.iter().zip(contexts).zip(streamed?) {
            let observation = context.observe(&flows);
            let judgment = judge_during(&during.expectation, &observation);
            self.probed += 1;
            reports.push(ProbeReport {
                span: probe.span.clone(),
                title: probe_words(probe),
                expected: during_parts(&during.expectation),
                observation: Observation::Stream(Box::new(observation)),
                judgment,
                diagnosis: None,
                rules: Vec::new(),
                explain_command: None,
                duration: begin.elapsed(),
            });
        }
        Ok(reports)
    }

    /// The data that the flows of a probe are compared with.
    fn stream_context(
        &mut self,
        during: &During,
        DuringProbe { probe, service }: &DuringProbe,
        (before, after): (&Cluster, &Cluster),
        plan: &Topology,
    ) -> Result<StreamContext, RunError> {
        let hosts = &self.scenario.hosts;
        let node = node_of(probe, before);
        let promised = |cluster: &Cluster, asked: Option<&Question>| {
            let promises = Promises::of(cluster).map_err(Unsupported::from)?;
            Ok::<_, RunError>(asked.map_or(Promised::Nothing, |asked| Promised::of(&promises.about(asked).outcome)))
        };
        // A stopped kube-proxy leaves the rules of its last sync, so the promise of that state is the one before the change.
        let asked = question(hosts, self.prober.lab().topology(), probe);
        let treating = node.as_deref().or(asked.as_ref().and_then(|asked| asked.via.as_deref()));
        let known = before.synced_on(treating.unwrap_or_default());
        let promised = (promised(&known, asked.as_ref())?, promised(after, question(hosts, plan, probe).as_ref())?);
        let endpoints = service.as_ref().map(|(name, port)| {
            let endpoints = after.endpoints_of(name, port, Family::of(probe.to.address));
            endpoints.filter(|(endpoint, _)| endpoint.may_serve()).map(|(_, reached)| reached).collect()
        });
        let time = (during.before, during.after);
        Ok(StreamContext { node, rate: during.rate, time, promised, endpoints })
    }

    /// Installs the generator's rules in another thread while this one sends. The inner result is that of the flows only.
    fn with_generator(&mut self, during: &During, after: &Cluster, plan: Topology) -> Result<Made, RunError> {
        let sync = self.sync(after, during.change.restarted())?;
        let streamed = thread::scope(|scope| {
            let mut change = GeneratorChange::Planned { plan, sync: &sync, scope };
            let streamed = self.send(during, &mut |lab| change.advance(lab));
            change.finish(self.prober.lab())?;
            Ok::<_, RunError>(streamed)
        })?;
        Ok((streamed, sync.documents))
    }

    /// Lets programs follow the API server while this thread sends. The inner result is that of the flows only.
    fn with_programs(
        &mut self,
        during: &During,
        after: &Cluster,
        plan: Topology,
        proxies: &mut Proxies,
    ) -> Result<Made, RunError> {
        let mut change = ProgramsChange::new(plan, proxies, after, during.change.restarted());
        let streamed = self.send(during, &mut |lab| change.advance(lab));
        let documents = match change.finish(self.prober.lab())? {
            // Checking programs while flows are sent would slow down both.
            Some(begun) => {
                let begun = begun.unwatched();
                let (documents, times) = proxies.finish(self.prober.lab(), self.scenario, after, &begun)?;
                self.syncs.extend(sync_times(self.applied + 1, times));
                documents
            }
            // The change failed; `streamed` has the error.
            None => self.documents.clone(),
        };
        Ok((streamed, documents))
    }

    fn send(
        &mut self,
        during: &During,
        change: &mut dyn FnMut(&mut Lab) -> Result<ChangeProgress, RunError>,
    ) -> Result<Streamed, RunError> {
        let probes: Vec<&Probe> = during.probes.iter().map(|one| &one.probe).collect();
        let stream = Stream { probes: &probes, rate: during.rate, before: during.before, after: during.after };
        self.prober.stream(&stream, change).map_err(|error| match (error, probes.first()) {
            (RunError::Prober(source), Some(probe)) => {
                RunError::Probe { span: probe.span.clone(), source: Box::new(source) }
            }
            (error, _) => error,
        })
    }
}

/// The flows of each probe.
type Streamed = Vec<Vec<StreamedFlow>>;
/// The flows that were sent while a change was made, and the documents installed after it.
type Made = (Result<Streamed, RunError>, Vec<Document>);

/// A cluster with the pods and endpoints of two states: during the change, a node serves what it serves in either of them.
fn union_of_states(before: &Cluster, after: &Cluster) -> Cluster {
    let mut both = after.clone();
    both.pods.extend(before.pods.iter().filter(|pod| after.pod(&pod.name).is_none()).cloned());
    both.slices.extend(before.slices.iter().cloned());
    both
}

/// The node that a sender is on; `None` for an outside host.
fn node_of(probe: &Probe, cluster: &Cluster) -> Option<String> {
    match &probe.from {
        Vantage::Pod(name) => cluster.pod(name).map(|pod| pod.node.clone()),
        Vantage::Node(name) | Vantage::Localhost(name) => Some(name.clone()),
        Vantage::Host(_) => None,
    }
}
