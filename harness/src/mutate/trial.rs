//! A lab in which mutants are installed one after the other.

use std::cell::Cell;

use svclab_rules::mutate::Holder;

use super::Options;
use super::candidate::{Candidate, Originals};
use super::forecast::{Forecast, SOURCE_PORT};
use super::mutant::{Baseline, Fate, Mutant, Tried};
use crate::documents::Document;
use crate::lab::{LabError, with_lab};
use crate::predict::{Network, NewFlow};
use crate::probe::ProbeError;
use crate::run::{RunError, Session};
use crate::scenario::{Probe, Scenario, Step, Test};
use crate::sources::{Context, Sources};
use crate::stats::Goal;
use crate::verify::{Disagreement, QuestionList};

/// The number of flows that are sent before their results are evaluated.
const AT_ONCE: usize = 64;
/// The relative error of a share that a test of the scenario must detect: mutations change shares far more, so that a test needs
/// fewer flows than in a run.
const SHARE_OFF_BY: f64 = 0.2;

/// Tries a scenario's mutants, after its tests and `verify` have run on the unmodified rules.
pub(super) fn trials(scenario: &Scenario, options: &Options) -> Result<Tried, RunError> {
    let inquiry = QuestionList::of(scenario, options.backend)?;
    let originals = Originals(&inquiry.documents);
    let candidates = originals.candidates(&scenario.rules, options);
    let (unmodified, released) = (inquiry.context(&inquiry.documents)?, inquiry.released()?);
    let goal = Goal { relative_bias: SHARE_OFF_BY, ..Goal::default() };
    with_lab(&inquiry.topology, &inquiry.documents, options.backend, |lab| {
        let session = Session::open(scenario, lab, inquiry.documents.clone(), goal)?;
        let of = |flow: NewFlow| Forecast::of(&unmodified.network, &flow);
        let mut trial = Trial {
            inquiry: &inquiry,
            originals: &originals,
            unmodified: &unmodified,
            released: &released,
            before: inquiry.probes.iter().map(|probe| of(NewFlow::of(probe, SOURCE_PORT))).collect(),
            tested: probes_of_tests(scenario).map(|probe| (flow_of_test(probe), of(flow_of_test(probe)))).collect(),
            session,
            failing_before: Vec::new(),
            baseline: Baseline::default(),
            installed: None,
        };
        trial.run_baseline(tests_of_first_state(scenario).count())?;
        let mutants = candidates.iter().filter_map(|candidate| trial.of(candidate).transpose());
        let mutants = mutants.collect::<Result<_, RunError>>()?;
        Ok(Tried { baseline: trial.baseline, mutants })
    })?
}

/// The tests that have a probe in a scenario's first state.
fn tests_of_first_state(scenario: &Scenario) -> impl Iterator<Item = &Test> {
    let changes = |test: &&Test| test.steps.iter().any(|step| matches!(step, Step::Apply(_) | Step::Wait(_)));
    let whole = scenario.tests.iter().take_while(move |test| !changes(test));
    let starts = |test: &&Test| matches!(test.steps.first(), Some(Step::Probe(..)));
    whole.chain(scenario.tests.iter().find(changes).filter(starts))
}

/// The probes of a scenario's first state.
fn probes_of_tests(scenario: &Scenario) -> impl Iterator<Item = &Probe> {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    steps.map_while(|step| match step {
        Step::Probe(probe, _) => Some(&**probe),
        Step::Apply(_) | Step::Wait(_) => None,
    })
}

/// The first flow of a test's probe.
fn flow_of_test(probe: &Probe) -> NewFlow {
    NewFlow::of(probe, probe.source_port.unwrap_or(SOURCE_PORT))
}

struct Trial<'t, 'lab, 'scenario> {
    inquiry: &'t QuestionList<'scenario>,
    originals: &'t Originals<'t>,
    /// The context of the unmodified rules.
    unmodified: &'t Context<'t>,
    /// The predictions for all questions with the unmodified rules.
    before: Vec<Forecast>,
    /// The same for the flows of the scenario's own tests.
    tested: Vec<(NewFlow, Forecast)>,
    session: Session<'lab, 'scenario>,
    /// The network with the rules that the release writes.
    released: &'t Network<'t>,
    /// The results for the unmodified rules.
    baseline: Baseline,
    /// Questions for which the sources disagree on the unmodified rules, including known bugs of the release.
    failing_before: Vec<usize>,
    /// The document that the installed mutant replaces.
    installed: Option<usize>,
}

impl Trial<'_, '_, '_> {
    /// Runs the tests and `verify` on the unmodified rules.
    fn run_baseline(&mut self, tests: usize) -> Result<(), RunError> {
        let all: Vec<usize> = (0..self.inquiry.probes.len()).collect();
        let failures = Cell::new(0);
        let counts = |disagreement: Disagreement| {
            failures.set(failures.get() + usize::from(disagreement.fails(false)));
            true
        };
        self.failing_before = self.disagreements(self.unmodified, &all, &counts, true)?;
        self.session.lab().forget()?;
        let failing_tests = self.session.failing(&|_| true, true)?.into_iter().map(str::to_owned).collect();
        self.baseline = Baseline { tests, failing_tests, failing_flows: failures.get() };
        Ok(())
    }

    /// Tries a mutant. Returns `None` where the kernel rejects it.
    fn of(&mut self, candidate: &Candidate) -> Result<Option<Mutant>, RunError> {
        let inquiry = self.inquiry;
        let mutated = self.originals.mutated(candidate);
        let mut documents = inquiry.documents.clone();
        documents[candidate.document] = mutated.clone();
        let mutant = inquiry.context(&documents)?;
        let probes = inquiry.probes.iter().map(|probe| NewFlow::of(probe, SOURCE_PORT));
        let after: Vec<Forecast> = probes.map(|flow| Forecast::of(&mutant.network, &flow)).collect();
        let differing: Vec<usize> = (0..after.len()).filter(|at| after[*at] != self.before[*at]).collect();
        let changes_tests = self.tested.iter().any(|(flow, before)| Forecast::of(&mutant.network, flow) != *before);
        let (mut fate, mut tests_fail) = (Fate::Equivalent, false);
        if !differing.is_empty() || changes_tests {
            match self.install(candidate.document, mutated) {
                Ok(()) => {}
                Err(LabError::Rules { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            fate = self.fate(&mutant, &differing)?;
            tests_fail = changes_tests && self.tests_fail(&mutant.network)?;
        }
        let Candidate { change, document } = candidate;
        let Document { netns, family, .. } = &inquiry.documents[*document];
        let mut mutated = Mutant {
            operator: change.operator.as_str(),
            netns: netns.clone(),
            family: family.to_string(),
            table: change.place.table.clone(),
            holder: match change.place.holder {
                Holder::Chain => "chain",
                Holder::Set => "set",
            },
            name: change.place.name.clone(),
            number: change.place.number,
            was: change.was.clone(),
            is: change.is.clone(),
            flows: differing.len(),
            fate,
            tests_fail,
            example: None,
        };
        if mutated.fate == Fate::Survived || mutated.is_missed() {
            mutated.example = self.example(&mutant.network, &differing, &after);
        }
        Ok(Some(mutated))
    }

    /// Installs a mutant in place of its document, and restores the document that the previous mutant replaced.
    fn install(&mut self, at: usize, mutated: Document) -> Result<(), LabError> {
        let before = self.installed.replace(at).filter(|before| *before != at);
        let documents: Vec<Document> =
            before.map(|before| self.inquiry.documents[before].clone()).into_iter().chain([mutated]).collect();
        self.session.lab().install(&documents)?;
        self.session.lab().forget()
    }

    /// Returns the result of `verify` for the installed mutant.
    fn fate(&mut self, mutant: &Context<'_>, differing: &[usize]) -> Result<Fate, RunError> {
        if differing.is_empty() {
            return Ok(Fate::Equivalent);
        }
        if !self.disagreements(mutant, differing, &|disagreement| disagreement.fails(false), false)?.is_empty() {
            return Ok(Fate::Killed);
        }
        if differing.iter().any(|at| self.failing_before.contains(at)) {
            return Ok(Fate::FailingBefore);
        }
        let is_unspecified = differing.iter().all(|at| !self.matters(&mutant.network, *at));
        Ok(if is_unspecified { Fate::Unspecified } else { Fate::Survived })
    }

    /// Whether a flow differs in what the Service API specifies.
    fn matters(&self, mutant: &Network<'_>, at: usize) -> bool {
        let flow = NewFlow::of(&self.inquiry.probes[at], SOURCE_PORT);
        let words = self.unmodified.words_of_what_is_promised(&self.inquiry.asked[at]);
        let of = |network| Forecast::in_words(network, &flow, &words);
        of(mutant) != of(&self.unmodified.network)
    }

    /// Whether a test of the scenario fails that passes on the unmodified rules, of the tests with a flow whose prediction differs.
    fn tests_fail(&mut self, mutant: &Network<'_>) -> Result<bool, RunError> {
        self.session.lab().forget()?;
        let (tested, baseline) = (&self.tested, &self.baseline);
        let matters = |probe: &Probe| {
            let flow = flow_of_test(probe);
            // Of a segment that opens no connection nothing is predicted.
            probe.tcp_flags.is_some()
                || tested.iter().any(|(known, before)| *known == flow && Forecast::of(mutant, &flow) != *before)
        };
        let is_chosen = |test: &Test| {
            let has_probe = test.steps.iter().any(|step| matches!(step, Step::Probe(probe, _) if matters(probe)));
            has_probe && !baseline.failing_tests.contains(&test.name)
        };
        Ok(!self.session.failing(&is_chosen, false)?.is_empty())
    }

    /// Returns the questions for which the sources disagree with these rules in a way that `counts`. Unless `all` are wanted, stops after
    /// the first batch with one.
    fn disagreements(
        &mut self,
        context: &Context<'_>,
        questions: &[usize],
        counts: &dyn Fn(Disagreement) -> bool,
        all: bool,
    ) -> Result<Vec<usize>, RunError> {
        let inquiry = self.inquiry;
        let mut found = Vec::new();
        for together in questions.chunks(AT_ONCE) {
            let probes: Vec<_> = together.iter().map(|at| inquiry.probes[*at].clone()).collect();
            let flows = match self.session.prober().send_together(&probes) {
                Ok(flows) => flows,
                // A loop is a failure in itself.
                Err(ProbeError::Endless) => return Ok(together.to_vec()),
                Err(error) => return Err(RunError::Prober(error)),
            };
            for (at, observed) in together.iter().zip(&flows) {
                let flow = NewFlow::of(&inquiry.probes[*at], observed.source.port());
                let sources = Sources::about(context, &inquiry.asked[*at], &flow, observed);
                let disagreement = sources.disagreement_with(self.released);
                if disagreement.is_some_and(|(disagreement, _)| counts(disagreement)) {
                    found.push(*at);
                }
            }
            if !found.is_empty() && !all {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the first flow that differs in what is specified, with both predictions.
    fn example(&self, mutant: &Network<'_>, differing: &[usize], after: &[Forecast]) -> Option<String> {
        let at = *differing.iter().find(|at| self.matters(mutant, **at))?;
        let flow = NewFlow::of(&self.inquiry.probes[at], SOURCE_PORT);
        Some(format!("{flow}: was {}; is {}", self.before[at].words(), after[at].words()))
    }
}
