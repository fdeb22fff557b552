//! A session: one scenario, from its plan to its last judgment.

mod advance;
mod during;
mod probing;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use svclab_rules::cluster::{Cluster, Node};
use svclab_rules::conntrack::{Cleanup, cleanup};
use svclab_rules::ruleset::Unsupported;

pub(super) use self::probing::flows;
use super::attempt::{Assignment, Attempt, LabArtifacts, StopFlag, Supervisor};
use super::diagnosis::Failure;
use super::{Options, RunError, Selection};
use crate::documents::Document;
use crate::lab::{Installer, Lab, LabError, Listing, generate_for_lab, with_lab};
use crate::observation::Observation;
use crate::probe::{Prober, Used, interruption, is_interrupted};
use crate::proxy::{self, Proxies};
use crate::report::{
    Diagnosis, ProbeReport, RuleExcerpt, Status, SyncTime, TestReport, Trouble, probe_titles, probe_words,
};
use crate::scenario::{Change, Probe, Scenario, Step, Test};
use crate::stats::Goal;
use crate::topology;

/// The tests of a scenario in their lab.
pub(crate) struct Session<'lab, 'scenario> {
    scenario: &'scenario Scenario,
    prober: Prober<'lab>,
    cluster: Cluster,
    documents: Vec<Document>,
    /// The programs that write the nodes' rules, instead of the generator.
    proxies: Option<Proxies>,
    /// The sync times of programs.
    syncs: Vec<SyncTime>,
    /// The number of changes that were applied.
    applied: usize,
    /// The number of probes that were reported.
    probed: usize,
    failed: Vec<Failed<'scenario>>,
    /// The state of the lab after each test that failed, by the test's name.
    states: BTreeMap<String, Vec<Listing>>,
    /// The destination of the test's last flow of each family, IPv4 first.
    delivered: [Option<SocketAddr>; 2],
    goal: Goal,
    /// Whether the suggested command for a failed probe is one of the shell in this lab, rather than one for the scenario's file.
    is_explained_here: bool,
    /// The options that choose the kernel of this lab, for suggested commands; `None` if it is that of the machine.
    kernel: Option<String>,
}

/// The state of a lab between two sessions.
#[derive(Debug)]
pub(crate) struct State {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// The rules that are installed.
    pub(crate) documents: Vec<Document>,
    /// The number of changes that were applied.
    pub(crate) applied: usize,
    /// The tags and source ports that probes have used.
    pub(crate) used: Used,
}

/// The actions of kube-proxies after a change, with the generator's rules.
struct Sync {
    /// The documents that are installed after it.
    documents: Vec<Document>,
    /// Those of them that are written.
    written: Vec<Document>,
    /// The connections that are deleted, by namespace.
    cleanups: Vec<(String, Cleanup)>,
}

impl Sync {
    /// Installs the rules, then deletes connections, as kube-proxy does.
    fn carry_out(&self, installer: &Installer) -> Result<(), LabError> {
        installer.install(&self.written)?;
        self.cleanups.iter().try_for_each(|(netns, cleanup)| installer.clean_up(netns, cleanup))
    }
}

/// A probe that failed.
struct Failed<'scenario> {
    probe: &'scenario Probe,
    /// The number of probes reported before it.
    position: usize,
    /// The number of changes applied before it.
    applied: usize,
}

/// Builds a scenario's lab and runs its tests; each result is added to `tests` as soon as it is known. Returns the data to keep.
pub(super) fn carry_out(assigned: Assignment<'_>, tests: &mut Vec<TestReport>) -> Result<LabArtifacts, RunError> {
    let Assignment { scenario, attempt, progress, supervisor } = assigned;
    let documents = match attempt.programs {
        Some(_) => Vec::new(),
        None => generate_for_lab(scenario, &scenario.cluster, attempt.backend)?,
    };
    let topology = topology::plan(scenario);
    with_lab(&topology, &documents, attempt.backend, |lab| {
        let mut session = match &attempt.programs {
            Some(programs) => {
                let (proxies, documents, times) = Proxies::install(lab, scenario, programs)?;
                let session = Session::open(scenario, lab, documents, attempt.goal)?;
                Session { proxies: Some(proxies), syncs: sync_times(0, times), ..session }
            }
            None => Session::open(scenario, lab, documents.clone(), attempt.goal)?,
        };
        session.kernel.clone_from(&attempt.kernel);
        session.prober.report_to(progress);
        if attempt.pcap.is_some() || attempt.artifacts.is_some() {
            session.prober.start_record();
        }
        session.tests(attempt, supervisor, tests);
        let frames = session.prober.record().to_vec();
        supervisor.synced(&session.syncs);
        session.diagnoses(tests);
        Ok(LabArtifacts { frames, states: session.states })
    })?
}

/// The sync times of programs after a change, for reports.
fn sync_times(step: usize, times: Vec<proxy::SyncTime>) -> Vec<SyncTime> {
    let of_node = |proxy::SyncTime { node, time }| SyncTime { node, step, seconds: time.as_secs_f64() };
    times.into_iter().map(of_node).collect()
}

impl<'lab, 'scenario> Session<'lab, 'scenario> {
    /// Opens a session in a lab for a scenario's tests; `documents` are those that are installed.
    pub(crate) fn open(
        scenario: &'scenario Scenario,
        lab: &'lab mut Lab,
        documents: Vec<Document>,
        goal: Goal,
    ) -> Result<Self, RunError> {
        lab.restore(&scenario.connections)?;
        let state = State { cluster: scenario.cluster.clone(), documents, applied: 0, used: Used::default() };
        Self::resume(scenario, lab, state, goal)
    }

    /// Continues in a lab that an earlier session has left in a state.
    pub(crate) fn resume(
        scenario: &'scenario Scenario,
        lab: &'lab mut Lab,
        state: State,
        goal: Goal,
    ) -> Result<Self, RunError> {
        let State { cluster, documents, applied, used } = state;
        let prober = Prober::resume(lab, &cluster, used).map_err(RunError::Prober)?;
        Ok(Self {
            scenario,
            prober,
            cluster,
            documents,
            proxies: None,
            syncs: Vec::new(),
            applied,
            probed: 0,
            failed: Vec::new(),
            states: BTreeMap::new(),
            delivered: [None; 2],
            goal,
            is_explained_here: false,
            kernel: None,
        })
    }

    /// Closes the session; the lab keeps its state.
    pub(crate) fn close(self) -> State {
        let Self { prober, cluster, documents, applied, .. } = self;
        State { cluster, documents, applied, used: prober.close() }
    }

    /// The prober of the lab.
    pub(crate) fn prober(&mut self) -> &mut Prober<'lab> {
        &mut self.prober
    }

    /// Flushes all connections except those that the scenario starts with.
    pub(crate) fn reset_connections(&mut self) -> Result<(), LabError> {
        self.prober.lab().forget()?;
        self.prober.lab().restore(self.scenario.connections_with(&self.cluster))
    }

    /// The lab.
    pub(crate) fn lab(&mut self) -> &mut Lab {
        self.prober.lab()
    }

    /// The rules that are installed.
    pub(crate) fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Runs selected tests like a run does, and returns to the previous state. If one of them, or an earlier one, changes the cluster, they
    /// start from the scenario's first state. After an interruption, only the tests before it are reported.
    ///
    /// # Errors
    ///
    /// If the first state or the previous one cannot be restored.
    pub(crate) fn carry_out_tests(&mut self, selection: Selection) -> Result<Vec<TestReport>, RunError> {
        let (before, applied) = (self.cluster.clone(), self.applied);
        let last = self.scenario.tests.iter().rposition(|test| selection.chooses(test)).map_or(0, |last| last + 1);
        let changes =
            self.scenario.tests[..last].iter().flat_map(|test| &test.steps).any(|step| step.change().is_some());
        if changes {
            self.return_to(&self.scenario.cluster.clone())?;
            self.applied = 0;
        }
        let options = Options { selection, goal: self.goal, backend: self.lab().backend(), ..Options::default() };
        let attempt = Attempt::new(&options, self.goal.false_alarm, String::new());
        self.is_explained_here = !changes;
        let mut reports = Vec::new();
        let mut stop = StopFlag { is_set: interruption(), at_failure: false, syncs: Vec::new() };
        self.tests(&attempt, &mut stop, &mut reports);
        if is_interrupted() {
            reports.pop_if(|last| last.error.is_some());
        } else {
            self.diagnoses(&mut reports);
        }
        if changes {
            self.return_to(&before)?;
            self.applied = applied;
        }
        Ok(reports)
    }

    /// The names of the selected tests that fail or cannot be run: all, or the first. Tests are run in the scenario's first state, up to
    /// the first change of objects.
    ///
    /// # Errors
    ///
    /// If the lab fails.
    pub(crate) fn failing(
        &mut self,
        is_chosen: &dyn Fn(&Test) -> bool,
        all: bool,
    ) -> Result<Vec<&'scenario str>, RunError> {
        let scenario = self.scenario;
        let mut failing = Vec::new();
        for test in &scenario.tests {
            if is_chosen(test) && !self.holds(test)? {
                failing.push(test.name.as_str());
            }
            let leaves_first_state =
                test.steps.iter().any(|step| step.change().is_some() || matches!(step, Step::Wait(_)));
            if leaves_first_state || !all && !failing.is_empty() {
                break;
            }
        }
        Ok(failing)
    }

    /// Whether the probes of a test before its first change of objects hold.
    fn holds(&mut self, test: &Test) -> Result<bool, RunError> {
        self.delivered = [None; 2];
        for step in &test.steps {
            let Step::Probe(probe, expectation) = step else { break };
            match self.send_and_judge(probe, expectation) {
                Ok((_, _, judgment)) if judgment.held => {}
                Ok(_) => return Ok(false),
                Err(error) if error.is_about_one_probe() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Runs the selected tests; for others before them only the changes are made, which later tests build on. Nothing
    /// is run after an error that breaks the lab.
    fn tests(&mut self, attempt: &Attempt, supervisor: &mut dyn Supervisor, reports: &mut Vec<TestReport>) {
        let tests = &self.scenario.tests;
        let is_chosen = |test: &Test| attempt.selection.chooses(test);
        let last = tests.iter().rposition(is_chosen).map_or(0, |position| position + 1);
        let mut broken: Option<Trouble> = None;
        for test in &tests[..last] {
            let is_chosen = is_chosen(test);
            if is_chosen && !supervisor.may_start(test) {
                break;
            }
            self.prober.limit(attempt.timeout);
            let (begin, mut probes) = (Instant::now(), Vec::new());
            let error = match &broken {
                Some(trouble) => Some(trouble.for_test_not_run()),
                None => {
                    let (error, breaks) = self.test(test, is_chosen, &mut probes);
                    broken = breaks;
                    error.or_else(|| broken.clone())
                }
            };
            for (probe, title) in probes.iter_mut().zip(probe_titles(test)) {
                probe.title = title;
            }
            if is_chosen {
                let report = TestReport { probes, error, duration: begin.elapsed(), ..TestReport::of(test) };
                if attempt.artifacts.is_some() && report.status() != Status::Ok {
                    let mut ruled: Vec<&str> = self.documents.iter().map(|document| document.netns.as_str()).collect();
                    ruled.dedup();
                    self.states.insert(test.name.clone(), self.prober.lab().state(&ruled));
                }
                supervisor.ended(&report);
                reports.push(report);
            }
        }
        self.prober.limit(None);
    }

    /// Runs a test, or only its changes if it is not selected. Returns the error of a probe that could not be sent, which ends the test,
    /// and the error that broke the lab. The changes of a test that has ended are made all the same.
    fn test(
        &mut self,
        test: &'scenario Test,
        is_chosen: bool,
        probes: &mut Vec<ProbeReport>,
    ) -> (Option<Trouble>, Option<Trouble>) {
        let mut error = None;
        self.delivered = [None; 2];
        for step in &test.steps {
            let carried_out = match step {
                Step::Change(change) => self.change(change),
                Step::During(during) if is_chosen && error.is_none() => {
                    self.during(during).map(|reports| probes.extend(reports))
                }
                Step::During(during) => self.change(&during.change),
                Step::Wait(time) if is_chosen && error.is_none() => {
                    let failed = |source| RunError::Probe { span: test.span.clone(), source: Box::new(source) };
                    self.prober.wait(*time).map_err(failed)
                }
                Step::Probe(probe, expectation) if is_chosen && error.is_none() => {
                    self.prober.comment(&format!("{}: {}", test.name, probe_words(probe)));
                    self.probe(probe, expectation).map(|report| probes.push(report))
                }
                Step::Probe(..) | Step::Wait(_) => Ok(()),
            };
            match carried_out {
                Ok(()) => {}
                Err(ended) if ended.is_about_one_probe() => error = Some(ended.into_trouble()),
                Err(broken) => return (error, Some(broken.into_trouble())),
            }
        }
        (error, None)
    }

    /// Makes a change: see [`Self::apply`].
    ///
    /// # Errors
    ///
    /// As [`Self::apply`].
    pub(crate) fn change(&mut self, change: &Change) -> Result<(), RunError> {
        let before = self.cluster.clone();
        self.apply(change.state_after(&before), change.restarted())
    }

    /// Changes the cluster's objects, as an API server would, stops, starts and restarts kube-proxies, and lets the running ones sync their
    /// node's rules and delete connections.
    ///
    /// # Errors
    ///
    /// If rules cannot be generated, or the lab fails.
    pub(crate) fn apply(&mut self, cluster: &Cluster, restarted: &[String]) -> Result<(), RunError> {
        let plan = self.prober.lab().plan_at(self.scenario, cluster);
        let documents = match &mut self.proxies {
            Some(proxies) => {
                self.prober.lab().rewire(plan)?;
                let (documents, times) = proxies.apply(self.prober.lab(), self.scenario, cluster, restarted)?;
                self.syncs.extend(sync_times(self.applied + 1, times));
                documents
            }
            None => {
                let sync = self.sync(cluster, restarted)?;
                let lab = self.prober.lab();
                lab.rewire(plan)?;
                sync.carry_out(&lab.installer(&sync.written))?;
                sync.documents
            }
        };
        self.become_state(cluster, documents)
    }

    /// Continues with the state that the lab is in now.
    fn become_state(&mut self, cluster: &Cluster, documents: Vec<Document>) -> Result<(), RunError> {
        self.documents = documents;
        self.prober.follow(cluster).map_err(RunError::Prober)?;
        self.cluster = cluster.clone();
        self.applied += 1;
        Ok(())
    }

    /// The actions of kube-proxies for another state, with the generator's rules. A newly started one writes all rules, and knows nothing
    /// of the previous state.
    fn sync(&mut self, cluster: &Cluster, restarted: &[String]) -> Result<Sync, RunError> {
        let documents = self.prober.lab().generate(self.scenario, cluster)?;
        let runs = |node: &str| !cluster.stopped.contains_key(node);
        let was_stopped = |node: &str| self.cluster.stopped.contains_key(node);
        let has_started = |node: &str| runs(node) && was_stopped(node) || restarted.iter().any(|one| one == node);
        let is_written =
            |new: &&Document| !self.documents.contains(new) || new.netns.strip_prefix("node/").is_some_and(has_started);
        let written = documents.iter().filter(is_written).cloned().collect();
        let nothing = Cluster::default();
        let cleanup = |node: &Node| {
            let before = if has_started(&node.name) { &nothing } else { &self.cluster };
            Ok((format!("node/{}", node.name), cleanup(before, cluster, node).map_err(Unsupported::from)?))
        };
        let cleanups = cluster.nodes.iter().filter(|node| runs(&node.name)).map(cleanup);
        let cleanups = cleanups.collect::<Result<_, RunError>>()?;
        Ok(Sync { documents, written, cleanups })
    }

    /// Returns the lab to an earlier state.
    fn return_to(&mut self, state: &Cluster) -> Result<(), RunError> {
        if self.proxies.is_some() {
            // A stopped program leaves the rules of the state in which it was stopped: all programs are brought to that
            // state, and then this one is stopped.
            let mut stopped = BTreeMap::new();
            for (node, then) in &state.stopped {
                self.apply(&Cluster { stopped: stopped.clone(), ..Cluster::clone(then) }, &[])?;
                stopped.insert(node.clone(), Arc::clone(then));
            }
        }
        self.apply(state, &[])
    }

    /// Adds the diagnoses of failed probes, after all tests: a diagnosis flushes connections that a later test may rely on.
    fn diagnoses(&mut self, reports: &mut [TestReport]) {
        let mut probes: Vec<&mut ProbeReport> = reports.iter_mut().flat_map(|test| &mut test.probes).collect();
        for failed in std::mem::take(&mut self.failed) {
            let Some(report) = probes.get_mut(failed.position) else { continue };
            // The probe has already failed: a missing diagnosis is not a failure of the lab.
            if let Ok((diagnosis, rules)) = self.diagnosis(&failed, &report.observation) {
                (report.diagnosis, report.rules) = (Some(diagnosis), rules);
            }
        }
    }

    /// The diagnosis of a probe in the state in which it failed, and the deciding rules.
    fn diagnosis(
        &mut self,
        failed: &Failed<'_>,
        first: &Observation,
    ) -> Result<(Diagnosis, Vec<RuleExcerpt>), RunError> {
        let &Failed { probe, applied, .. } = failed;
        if self.applied != applied
            && let Some(state) = self.scenario.states().nth(applied)
        {
            self.return_to(state)?;
            self.applied = applied;
        }
        self.reset_connections()?;
        let failure = Failure { scenario: self.scenario, cluster: &self.cluster, documents: &self.documents, probe };
        failure.diagnosis(&mut self.prober, first)
    }
}
