//! One lab in which mutants take turns.

use std::collections::BTreeMap;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables::{RuleSet, parse, print};
use svclab_rules::mutate::{Change, changes, is_sound, sample};
use svclab_rules::walk::Share;

use super::{Fate, Mutant, Options};
use crate::documents::Document;
use crate::lab::with_lab;
use crate::predict::{Network, PredictError, Sent};
use crate::probe::ProbeError;
use crate::run::{RunError, Session};
use crate::scenario::Scenario;
use crate::stats::Goal;
use crate::verify::{Inquiry, flow_words};
use crate::voices::{outcome_words, sent};

/// Flows that are sent before it is looked whether one of them was enough.
const AT_ONCE: usize = 64;
/// The source port of flows that are predicted and not sent.
const SOURCE_PORT: u16 = 40_000;

/// Everything that can become of a flow, each with its share.
type Forecast = BTreeMap<String, Share>;

/// A mutant to try.
struct Candidate {
    /// Which document it is made of.
    document: usize,
    change: Change,
    mutated: Document,
}

/// Tries a scenario's mutants.
pub(super) fn trials(scenario: &Scenario, options: &Options) -> Result<Vec<Mutant>, RunError> {
    let inquiry = Inquiry::of(scenario)?;
    let candidates = candidates(&inquiry.documents, options)?;
    let before = forecasts(&inquiry, &inquiry.documents)?;
    with_lab(&inquiry.topology, &inquiry.documents, options.backend, |lab| {
        let session = Session::open(scenario, lab, inquiry.documents.clone(), Goal::default())?;
        let mut trial = Trial { inquiry: &inquiry, before: &before, session, failed: Vec::new() };
        let all: Vec<usize> = (0..inquiry.probes.len()).collect();
        trial.failed = trial.failures(&inquiry.documents, &all)?;
        candidates.iter().map(|candidate| trial.of(candidate)).collect()
    })?
}

/// All that can go wrong with documents of iptables, or a sample of it.
fn candidates(documents: &[Document], options: &Options) -> Result<Vec<Candidate>, RunError> {
    let mut sets: Vec<RuleSet> = Vec::new();
    for document in documents {
        let space = || document.space.clone();
        if document.mode == ProxyMode::Nftables {
            return Err(RunError::Unwalkable(Box::new(PredictError::Nftables(space()))));
        }
        let parsed = parse(&document.text, document.family);
        let parsed = parsed.map_err(|errors| PredictError::unreadable(space(), &errors));
        sets.push(parsed.map_err(|error| RunError::Unwalkable(Box::new(error)))?.rules);
    }
    let all: Vec<(usize, Change)> = sets
        .iter()
        .enumerate()
        .flat_map(|(at, rules)| changes(rules).into_iter().map(move |change| (at, change)))
        .collect();
    let number = options.sample.unwrap_or(all.len());
    let chosen = sample(all, number, options.seed).into_iter();
    let made = chosen.filter_map(|(document, change)| {
        let mutant = change.apply(&sets[document]);
        let mutated = Document { text: print(&mutant), ..documents[document].clone() };
        is_sound(&mutant).then_some(Candidate { document, change, mutated })
    });
    Ok(made.collect())
}

/// What is predicted of every question.
fn forecasts(inquiry: &Inquiry<'_>, documents: &[Document]) -> Result<Vec<Forecast>, RunError> {
    let network = Network::of(&inquiry.topology, documents, inquiry.cluster);
    let network = network.map_err(|error| RunError::Unwalkable(Box::new(error)))?;
    let of = |flow: Sent| {
        let mut forecast = Forecast::new();
        for branch in network.predict(&flow).into_iter().flat_map(|prediction| prediction.branches) {
            let share = forecast.entry(outcome_words(&branch.outcome)).or_insert(Share::ZERO);
            *share = share.plus(branch.share);
        }
        forecast
    };
    Ok(inquiry.probes.iter().map(|probe| of(sent(probe, SOURCE_PORT))).collect())
}

struct Trial<'t, 'lab, 'scenario> {
    inquiry: &'t Inquiry<'scenario>,
    before: &'t [Forecast],
    session: Session<'lab, 'scenario>,
    /// Questions at which `verify` fails without any mutant.
    failed: Vec<usize>,
}

impl Trial<'_, '_, '_> {
    fn of(&mut self, candidate: &Candidate) -> Result<Mutant, RunError> {
        let mut documents = self.inquiry.documents.clone();
        documents[candidate.document] = candidate.mutated.clone();
        let after = forecasts(self.inquiry, &documents)?;
        let differing: Vec<usize> = (0..after.len()).filter(|at| after[*at] != self.before[*at]).collect();
        let (fate, tests_fail) = match differing.is_empty() {
            true => (Fate::Equivalent, false),
            false => self.in_lab(candidate, &documents, &differing)?,
        };
        let example = (fate == Fate::Survived).then(|| self.example(&differing, &after)).flatten();
        let Candidate { change, mutated, .. } = candidate;
        Ok(Mutant {
            operator: change.operator.as_str(),
            space: mutated.space.clone(),
            family: mutated.family.to_string(),
            table: change.table.as_str(),
            chain: change.chain.to_string(),
            rule: change.rule,
            was: change.text.clone(),
            is: change.instead(mutated.family),
            flows: differing.len(),
            fate,
            tests_fail,
            example,
        })
    }

    /// Puts the mutant in the place of its document, looks who notices, and takes it out again.
    fn in_lab(
        &mut self,
        candidate: &Candidate,
        documents: &[Document],
        differing: &[usize],
    ) -> Result<(Fate, bool), RunError> {
        self.install(&candidate.mutated)?;
        let fails = !self.failures(documents, differing)?.is_empty();
        self.session.lab().forget()?;
        let tests_fail = !self.session.tests_hold()?;
        self.install(&self.inquiry.documents[candidate.document])?;
        let fate = match (fails, differing.iter().any(|at| self.failed.contains(at))) {
            (true, _) => Fate::Killed,
            (false, true) => Fate::Mended,
            (false, false) => Fate::Survived,
        };
        Ok((fate, tests_fail))
    }

    fn install(&mut self, document: &Document) -> Result<(), RunError> {
        self.session.lab().install(std::slice::from_ref(document))?;
        Ok(self.session.lab().forget()?)
    }

    /// Those of some questions at which `verify` fails with these documents. For a mutant one is enough: what comes behind those
    /// that are sent together with it is not asked.
    fn failures(&mut self, documents: &[Document], questions: &[usize]) -> Result<Vec<usize>, RunError> {
        let inquiry = self.inquiry;
        let network = Network::of(&inquiry.topology, documents, inquiry.cluster);
        let network = network.map_err(|error| RunError::Unwalkable(Box::new(error)))?;
        let is_baseline = self.failed.is_empty() && questions.len() == inquiry.probes.len();
        let mut failures = Vec::new();
        for together in questions.chunks(AT_ONCE) {
            let probes: Vec<_> = together.iter().map(|at| inquiry.probes[*at].clone()).collect();
            let flows = match self.session.prober().send_together(&probes) {
                Ok(flows) => flows,
                // That packets circle is a failure in itself.
                Err(ProbeError::Endless) => return Ok(together.to_vec()),
                Err(error) => return Err(RunError::Prober(error)),
            };
            for (at, observed) in together.iter().zip(&flows) {
                let flow = sent(&inquiry.probes[*at], observed.source.port());
                if inquiry.fails(*at, network.predict(&flow).as_ref(), observed) {
                    failures.push(*at);
                }
            }
            if !failures.is_empty() && !is_baseline {
                break;
            }
        }
        Ok(failures)
    }

    /// The first flow that differs, with what was and what is predicted.
    fn example(&self, differing: &[usize], after: &[Forecast]) -> Option<String> {
        let at = *differing.first()?;
        let words = |forecast: &Forecast| {
            forecast.iter().map(|(outcome, share)| format!("{share}: {outcome}")).collect::<Vec<_>>().join("; ")
        };
        let flow = flow_words(&self.inquiry.probes[at]);
        Some(format!("{flow}: was {}; is {}", words(&self.before[at]), words(&after[at])))
    }
}
