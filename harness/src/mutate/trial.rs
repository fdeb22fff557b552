//! A lab in which mutants are installed one after the other.

use std::cell::Cell;

use svclab_rules::mutate::Holder;

use super::Options;
use super::classes::{Comparison, Differing, Known};
use super::comparable_prediction::{ComparablePrediction, SOURCE_PORT};
use super::mutant::{Baseline, Mutant, MutantStatus, Tried};
use super::mutant_list::{Candidate, Originals};
use crate::documents::Document;
use crate::lab::{LabError, with_lab};
use crate::predict::{Network, NewFlow, Senders};
use crate::probe::ProbeError;
use crate::run::{RunError, Session};
use crate::scenario::{Probe, Scenario, Step, Test};
use crate::sources::Sources;
use crate::stats::Goal;
use crate::verify::{AskedClass, Boundaries, ClassWalk, Depth, Disagreement, Prepared, vantages};

/// The number of flows that are sent before their results are evaluated.
const AT_ONCE: usize = 64;
/// The relative error of a share that a test of the scenario must detect: mutations change shares far more, so that a test needs
/// fewer flows than in a run.
const SHARE_OFF_BY: f64 = 0.2;

/// Tries a scenario's mutants, after its tests and `verify` have run on the unmodified rules.
pub(super) fn trials(scenario: &Scenario, options: &Options) -> Result<Tried, RunError> {
    let prepared = Prepared::of(scenario, options.backend)?;
    let originals = Originals(&prepared.documents);
    let (candidates, rejected) = originals.candidates(&scenario.rules, options);
    let (unmodified, released) = (prepared.context(&prepared.documents)?, prepared.released()?);
    let boundaries = Boundaries::of(prepared.cluster);
    // The unmodified rules are asked the same questions as the mutants.
    let depth = Depth::of(&prepared.documents, true);
    let unmodified = ClassWalk::new(&unmodified, &released, &boundaries, depth);
    let senders = Senders::of(&unmodified.context.network, &vantages(scenario));
    let known = Known::all(&unmodified, &senders);
    let goal = Goal { relative_bias: SHARE_OFF_BY, ..Goal::default() };
    with_lab(&prepared.topology, &prepared.documents, options.backend, |lab| {
        let session = Session::open(scenario, lab, prepared.documents.clone(), goal)?;
        let of = |flow: NewFlow| ComparablePrediction::predict_flow(&unmodified.context.network, &flow);
        let mut trial = Trial {
            scenario,
            prepared: &prepared,
            originals: &originals,
            unmodified: &unmodified,
            known: &known,
            tested: probes_of_tests(scenario).map(|probe| (flow_of_test(probe), of(flow_of_test(probe)))).collect(),
            session,
            failing_before: Vec::new(),
            baseline: Baseline::default(),
            installed: None,
        };
        trial.run_baseline(tests_of_first_state(scenario).count())?;
        let mutants = candidates.iter().filter_map(|candidate| trial.of(candidate).transpose());
        let mutants = mutants.collect::<Result<Vec<_>, RunError>>()?;
        let rejected = rejected + candidates.len() - mutants.len();
        Ok(Tried { baseline: trial.baseline, mutants, rejected })
    })?
}

/// The tests that have a probe in a scenario's first state.
fn tests_of_first_state(scenario: &Scenario) -> impl Iterator<Item = &Test> {
    let changes = |test: &&Test| test.steps.iter().any(|step| step.change().is_some() || matches!(step, Step::Wait(_)));
    let whole = scenario.tests.iter().take_while(move |test| !changes(test));
    let starts = |test: &&Test| matches!(test.steps.first(), Some(Step::Probe(..)));
    whole.chain(scenario.tests.iter().find(changes).filter(starts))
}

/// The probes of a scenario's first state.
fn probes_of_tests(scenario: &Scenario) -> impl Iterator<Item = &Probe> {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    steps.map_while(|step| match step {
        Step::Probe(probe, _) => Some(&**probe),
        Step::Change(_) | Step::During(_) | Step::Wait(_) => None,
    })
}

/// The first flow of a test's probe.
fn flow_of_test(probe: &Probe) -> NewFlow {
    NewFlow::of(probe, probe.source_port.unwrap_or(SOURCE_PORT))
}

struct Trial<'t, 'lab, 'scenario> {
    scenario: &'scenario Scenario,
    prepared: &'t Prepared<'scenario>,
    originals: &'t Originals<'t>,
    /// The questions about the unmodified rules.
    unmodified: &'t ClassWalk<'t, 't>,
    /// All classes of packets with the unmodified rules.
    known: &'t [Known<'t>],
    /// The flows of the scenario's own tests, with their predictions for the unmodified rules.
    tested: Vec<(NewFlow, ComparablePrediction)>,
    session: Session<'lab, 'scenario>,
    /// The results for the unmodified rules.
    baseline: Baseline,
    /// The positions of the classes for which the sources disagree on the unmodified rules, including known bugs of the release.
    failing_before: Vec<usize>,
    /// The document that the installed mutant replaces.
    installed: Option<usize>,
}

impl Trial<'_, '_, '_> {
    /// Runs the tests and `verify` on the unmodified rules.
    fn run_baseline(&mut self, tests: usize) -> Result<(), RunError> {
        let all: Vec<&AskedClass<'_>> = self.known.iter().map(|known| &known.asked).collect();
        let failures = Cell::new(0);
        let counts = |disagreement: Disagreement| {
            failures.set(failures.get() + usize::from(disagreement.fails(false)));
            true
        };
        self.failing_before = self.disagreements(self.unmodified, &all, &counts, true)?;
        self.session.reset_connections()?;
        let failing_tests = self.session.failing(&|_| true, true)?.into_iter().map(str::to_owned).collect();
        self.baseline = Baseline { tests, failing_tests, failing_flows: failures.get() };
        Ok(())
    }

    /// Tries a mutant. Returns `None` if the kernel rejects it.
    fn of(&mut self, candidate: &Candidate) -> Result<Option<Mutant>, RunError> {
        let prepared = self.prepared;
        let mutated = self.originals.mutated(candidate);
        let mut documents = prepared.documents.clone();
        documents[candidate.document] = mutated.clone();
        let mutant = prepared.context(&documents)?;
        let mutant =
            ClassWalk::new(&mutant, self.unmodified.released, self.unmodified.boundaries, self.unmodified.depth);
        let comparison = Comparison { unmodified: self.unmodified, mutant: &mutant };
        let differing = comparison.differing(self.known, &mutated);
        let network = &mutant.context.network;
        let changes_tests =
            self.tested.iter().any(|(flow, before)| ComparablePrediction::predict_flow(network, flow) != *before);
        let (mut fate, mut tests_fail) = (MutantStatus::Equivalent, false);
        if !differing.is_empty() || changes_tests {
            match self.install(candidate.document, mutated) {
                Ok(()) => {}
                Err(LabError::Rules { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            fate = self.fate(&mutant, &differing)?;
            tests_fail = changes_tests && self.tests_fail(network)?;
        }
        let Candidate { change, document } = candidate;
        let Document { netns, family, .. } = &prepared.documents[*document];
        let mut mutated = Mutant {
            operator: change.operator.as_str().into(),
            netns: netns.clone(),
            family: family.to_string(),
            table: change.place.table.clone(),
            container: match change.place.holder {
                Holder::Chain => "chain",
                Holder::Set => "set",
            }
            .into(),
            name: change.place.name.clone(),
            number: change.place.number,
            before: change.was.clone(),
            after: change.is.clone(),
            flows: differing.len(),
            result: fate,
            tests_fail,
            example: None,
        };
        if mutated.result == MutantStatus::Survived || mutated.is_missed() {
            mutated.example = differing.iter().find(|one| one.matters).map(Differing::example);
        }
        Ok(Some(mutated))
    }

    /// Installs a mutant in place of its document, and restores the document that the previous mutant replaced.
    fn install(&mut self, at: usize, mutated: Document) -> Result<(), LabError> {
        let before = self.installed.replace(at).filter(|before| *before != at);
        let documents: Vec<Document> =
            before.map(|before| self.prepared.documents[before].clone()).into_iter().chain([mutated]).collect();
        self.session.lab().install(&documents)?;
        self.session.reset_connections()
    }

    /// Returns the result of `verify` for the installed mutant.
    fn fate(&mut self, mutant: &ClassWalk<'_, '_>, differing: &[Differing<'_>]) -> Result<MutantStatus, RunError> {
        if differing.is_empty() {
            return Ok(MutantStatus::Equivalent);
        }
        let asked: Vec<&AskedClass<'_>> = differing.iter().map(|one| &one.asked).collect();
        if !self.disagreements(mutant, &asked, &|disagreement| disagreement.fails(false), false)?.is_empty() {
            return Ok(MutantStatus::Killed);
        }
        if differing.iter().any(|one| self.failing_before.contains(&one.class)) {
            return Ok(MutantStatus::FailingBefore);
        }
        let is_unspecified = differing.iter().all(|one| !one.matters);
        Ok(if is_unspecified { MutantStatus::Unspecified } else { MutantStatus::Survived })
    }

    /// Whether a test fails that passes on the unmodified rules. Only tests with a flow whose prediction differs are run.
    fn tests_fail(&mut self, mutant: &Network<'_>) -> Result<bool, RunError> {
        self.session.reset_connections()?;
        let (tested, baseline) = (&self.tested, &self.baseline);
        let matters = |probe: &Probe| {
            let flow = flow_of_test(probe);
            // There are no predictions for segments that do not open a connection.
            probe.tcp_flags.is_some()
                || tested.iter().any(|(known, before)| {
                    *known == flow && ComparablePrediction::predict_flow(mutant, &flow) != *before
                })
        };
        let is_chosen = |test: &Test| {
            let has_probe = test.steps.iter().any(|step| matches!(step, Step::Probe(probe, _) if matters(probe)));
            has_probe && !baseline.failing_tests.contains(&test.name)
        };
        Ok(!self.session.failing(&is_chosen, false)?.is_empty())
    }

    /// Returns the positions of classes for which the sources disagree with these rules in a way that `counts`. Unless `all` are
    /// wanted, stops as soon as there is one.
    fn disagreements(
        &mut self,
        class_walk: &ClassWalk<'_, '_>,
        classes: &[&AskedClass<'_>],
        counts: &dyn Fn(Disagreement) -> bool,
        all: bool,
    ) -> Result<Vec<usize>, RunError> {
        let mut found = Vec::new();
        let mut sent: Vec<(usize, Probe)> = Vec::new();
        for (position, asked) in classes.iter().enumerate() {
            let disagrees = || asked.sources(class_walk.context).disagreement_with(class_walk.released);
            let probe = asked.probe(self.scenario);
            let fails_later = asked.later.fault.as_ref().is_some_and(|fault| counts(fault.disagreement));
            if fails_later || probe.is_none() && disagrees().is_some_and(|(disagreement, _)| counts(disagreement)) {
                found.push(position);
            } else if let Some(probe) = probe {
                sent.push((position, probe));
            }
        }
        for together in sent.chunks(AT_ONCE) {
            if !found.is_empty() && !all {
                break;
            }
            let probes: Vec<Probe> = together.iter().map(|(_, probe)| probe.clone()).collect();
            let flows = match self.session.prober().send_all(&probes) {
                Ok(flows) => flows,
                // A loop is a failure in itself.
                Err(ProbeError::Endless) => {
                    found.extend(together.iter().map(|(position, _)| *position));
                    break;
                }
                Err(error) => return Err(RunError::Prober(error)),
            };
            for ((position, probe), observed) in together.iter().zip(&flows) {
                let flow = NewFlow::of(probe, observed.source.port());
                let sources = Sources::about(class_walk.context, &classes[*position].question, &flow, observed);
                let disagreement = sources.disagreement_with(class_walk.released);
                if disagreement.is_some_and(|(disagreement, _)| counts(disagreement)) {
                    found.push(*position);
                }
            }
        }
        Ok(found)
    }
}
