//! A failing class: flows that fail in the same way.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;

use super::repair::Repair;
use super::{LabResult, MinimizeError};
use crate::scenario::{Place, Scenario};
use crate::sources::Disagreement;
use crate::text::shell_word;
use crate::verify::{Finding, Options, Verification, verify};

/// Flows on which the sources disagree in the same way, and one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingClass {
    /// The sources that disagree.
    pub disagreement: Disagreement,
    /// The difference: `delivered with the wrong source`.
    pub what: String,
    /// One of the flows: `pod/client > 10.96.0.10:80 tcp`.
    pub flow: String,
    /// The promise for it, in a word: `delivered`.
    pub promised: String,
    /// Its service and port, if it is sent to a service.
    pub service: Option<String>,
}

/// The first word of a promise about traffic that is not to a Service.
const NOT_A_SERVICE: &str = "not";

/// How flows fail: the sources that disagree, the difference, and the promise in a word.
pub(super) type Way = (Disagreement, String, String);

impl fmt::Display for FailingClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.flow, self.what)
    }
}

impl FailingClass {
    /// The classes on which promise and prediction disagree, the most severe first.
    pub(super) fn all(scenario: &Scenario, options: &Options) -> Result<Vec<Self>, MinimizeError> {
        let options = Options { no_lab: true, ..options.clone() };
        let verification = verified(scenario, &options)?;
        Ok(verification.failures(&options).map(Self::of).collect())
    }

    fn of(finding: &Finding) -> Self {
        Self {
            disagreement: finding.disagreement,
            what: finding.what.clone(),
            flow: finding.example.flow.clone(),
            promised: first_word(&finding.example.promise),
            service: finding.example.service.clone(),
        }
    }

    /// The sender of its flow, as a scenario names it: without a source address that is not its own.
    fn sender(&self) -> &str {
        self.flow.split(' ').next().unwrap_or_default()
    }

    /// The options of `svclab verify` that leave out other flows: `--from=pod/client --service=default/web:http`.
    pub fn selection(&self) -> String {
        let service = self.service.as_deref().map(|service| format!(" --service={}", shell_word(service)));
        format!("--from={}{}", shell_word(self.sender()), service.unwrap_or_default())
    }

    fn is(&self, finding: &Finding) -> bool {
        way(finding) == self.way()
    }

    /// How it fails.
    pub(super) fn way(&self) -> Way {
        (self.disagreement, self.what.clone(), self.promised.clone())
    }

    /// The service, without its port: `namespace/name`.
    pub(super) fn service_name(&self) -> Option<&str> {
        let port = self.service.as_deref()?;
        Some(port.rsplit_once(':').map_or(port, |(service, _)| service))
    }
}

/// Decides whether a smaller scenario still shows the class.
pub(super) struct Judge<'c> {
    class: &'c FailingClass,
    /// The class's sender and service.
    own: Options,
    /// All senders, and at first the class's service: most others are left out at once.
    every: Options,
    /// The rules on the path of the class's flow, of the scenario's own ones: without any rules, other packets may be lost in the same way.
    path: Option<Vec<String>>,
    /// How flows of the whole scenario fail: a smaller one must not fail in other ways.
    known: HashSet<Way>,
    /// What the cause is, if rules are: without it, the class must keep its promise.
    repair: Option<Repair>,
    /// How flows of the repaired scenario fail.
    known_repaired: HashSet<Way>,
    /// The number of scenarios tried.
    pub(super) tried: usize,
}

impl<'c> Judge<'c> {
    /// `known` are the ways in which flows of the whole scenario fail.
    pub(super) fn new(class: &'c FailingClass, known: HashSet<Way>, options: &Options, whole: &Scenario) -> Self {
        let every = Options {
            jobs: NonZeroUsize::new(1),
            no_lab: true,
            service: class.service.clone().or_else(|| options.service.clone()),
            from: None,
            node: None,
            ..options.clone()
        };
        let own = Options { from: Some(class.sender().to_owned()), ..every.clone() };
        let mut judge =
            Self { class, own, every, path: None, known, repair: None, known_repaired: HashSet::new(), tried: 0 };
        judge.path = judge.example_path(whole);
        judge
    }

    /// The rules on the path of the first flow of the class's sender and service that fails as the class does.
    fn example_path(&self, scenario: &Scenario) -> Option<Vec<String>> {
        let verification = verified(scenario, &self.own).ok()?;
        let finding = verification.failures(&self.own).find(|finding| self.class.is(finding))?;
        Some(own_path(finding, scenario))
    }

    /// Watches flows to all other addresses too from now on. How these fail in a scenario without most other services is known.
    pub(super) fn watch_all(&mut self, scenario: &Scenario) {
        self.every.service = None;
        self.known.extend(self.ways(scenario).unwrap_or_default());
    }

    /// Looks for the rules that are the cause: without them, or with those that are missing, the class keeps its promise.
    pub(super) fn find_repair(&mut self, scenario: &Scenario) {
        self.repair = Repair::find(scenario, |repaired| self.holds(repaired));
        let repaired = self.repair.as_ref().and_then(|repair| repair.repaired(scenario));
        self.known_repaired = repaired.and_then(|repaired| self.ways(&repaired).ok()).unwrap_or_default();
    }

    /// How flows of any sender fail.
    pub(super) fn ways(&self, scenario: &Scenario) -> Result<HashSet<Way>, MinimizeError> {
        Ok(verified(scenario, &self.every)?.failures(&self.every).map(way).collect())
    }

    /// Whether no flow of the class fails in this way.
    pub(super) fn holds(&mut self, scenario: &Scenario) -> bool {
        self.tried += 1;
        verified(scenario, &self.own)
            .is_ok_and(|verification| !verification.failures(&self.own).any(|finding| self.class.is(finding)))
    }

    /// Whether the class's sender still fails in this way, for the same service and by the same cause, and no flow fails in another way
    /// than before.
    pub(super) fn shows(&mut self, scenario: &Scenario) -> bool {
        self.tried += 1;
        self.fails(scenario)
            && match self.repair.as_ref().map(|repair| repair.repaired(scenario)) {
                None => true,
                Some(None) => false,
                Some(Some(repaired)) => self.holds(&repaired) && self.adds_nothing(&repaired, &self.known_repaired),
            }
            && self.adds_nothing(scenario, &self.known)
    }

    /// Whether the class's sender fails in this way, with the same rules on its path.
    fn fails(&self, scenario: &Scenario) -> bool {
        let is_by_path = |finding: &Finding| self.path.as_ref().is_none_or(|path| *path == own_path(finding, scenario));
        verified(scenario, &self.own).is_ok_and(|verification| {
            verification.failures(&self.own).any(|finding| self.class.is(finding) && is_by_path(finding))
        })
    }

    /// Whether flows fail only in ways that are known. Rules that lead to no Service any more are the next to be removed.
    fn adds_nothing(&self, scenario: &Scenario, known: &HashSet<Way>) -> bool {
        let is_left_over = |(_, _, promised): &Way| promised == NOT_A_SERVICE;
        self.ways(scenario).is_ok_and(|ways| ways.iter().all(|way| known.contains(way) || is_left_over(way)))
    }

    /// Sends packets in a lab to reproduce the failure.
    pub(super) fn reproduce(&self, scenario: &Scenario) -> Result<LabResult, MinimizeError> {
        let options = Options { no_lab: false, ..self.own.clone() };
        let verification = verified(scenario, &options)?;
        let mut own = verification.failures(&options).filter(|finding| self.class.is(finding)).peekable();
        Ok(match (own.peek().is_some(), own.any(|finding| finding.example.is_observed)) {
            (_, true) => LabResult::Reproduced,
            (true, false) => LabResult::NotSendable,
            (false, false) => LabResult::NotReproduced,
        })
    }

    pub(super) fn class(&self) -> &FailingClass {
        self.class
    }
}

/// How the flows of a finding fail.
fn way(finding: &Finding) -> Way {
    (finding.disagreement, finding.what.clone(), first_word(&finding.example.promise))
}

/// The rules on the path of a finding's example, of nodes whose rules the scenario contains: those that are generated depend on its objects.
fn own_path(finding: &Finding, scenario: &Scenario) -> Vec<String> {
    let is_own = |rule: &&String| {
        scenario.rules.iter().any(|own| match &own.place {
            Place::Node(name) => rule.strip_prefix("node/").is_some_and(|rest| rest.starts_with(&format!("{name} "))),
            Place::Pod(_) => false,
        })
    };
    finding.example.rules.iter().filter(is_own).cloned().collect()
}

fn verified(scenario: &Scenario, options: &Options) -> Result<Verification, MinimizeError> {
    let mut all = verify(std::slice::from_ref(scenario), options, &|_| {});
    match all.pop().map(|verified| verified.result) {
        Some(Ok(verification)) => Ok(verification),
        Some(Err(trouble)) => Err(MinimizeError::Trouble(Box::new(trouble))),
        None => Err(MinimizeError::NothingFails),
    }
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}
