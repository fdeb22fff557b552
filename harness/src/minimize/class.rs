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

    /// Whether flows fail in this way, and the first of them is its own.
    fn is_shown_by(&self, finding: &Finding) -> bool {
        self.is(finding) && finding.example.flow == self.flow
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
    /// The flows to verify: at first those to the class's service, which leaves out most others at once.
    options: Options,
    /// The rules on the path of the class's flow, of the scenario's own ones. They stay if nothing repairs it: without any rules, other
    /// packets may be lost in the same way.
    path: Option<Vec<String>>,
    /// How flows of the whole scenario fail: a smaller one must not fail in other ways.
    known: HashSet<Way>,
    /// What the cause is, if rules are: without it, the class must keep its promise.
    repair: Option<Repair>,
    /// How flows of the repaired scenario fail: a smaller one must not fail in other ways, once it is repaired.
    known_repaired: HashSet<Way>,
    /// The number of scenarios tried.
    pub(super) tried: usize,
}

impl<'c> Judge<'c> {
    /// `known` are the ways in which flows of the whole scenario fail.
    pub(super) fn new(class: &'c FailingClass, known: HashSet<Way>, options: &Options, whole: &Scenario) -> Self {
        let options = Options {
            jobs: NonZeroUsize::new(1),
            no_lab: true,
            service: class.service.clone().or_else(|| options.service.clone()),
            node: None,
            ..options.clone()
        };
        let mut judge =
            Self { class, options, path: None, known, repair: None, known_repaired: HashSet::new(), tried: 0 };
        judge.path = judge.failures(whole).ok().and_then(|failures| {
            let finding = failures.iter().find(|finding| class.is(finding))?;
            Some(own_path(finding, whole))
        });
        judge
    }

    /// Watches flows to all other addresses, too, from now on. How these fail in a scenario without most other services is known.
    pub(super) fn watch_all(&mut self, scenario: &Scenario) {
        self.options.service = None;
        self.known.extend(self.ways(scenario).unwrap_or_default());
    }

    /// Looks for the rules that are the cause: without them, or with those that are missing, the class keeps its promise, and no flow fails
    /// in a new way.
    pub(super) fn find_repair(&mut self, scenario: &Scenario) {
        let mut others = self.known.clone();
        others.remove(&self.class.way());
        self.repair = Repair::find(scenario, |repaired| {
            self.tried += 1;
            self.ways(repaired).is_ok_and(|ways| ways.is_subset(&others))
        });
        let repaired = self.repair.as_ref().and_then(|repair| repair.repaired(scenario));
        self.known_repaired = repaired.and_then(|repaired| self.ways(&repaired).ok()).unwrap_or_default();
    }

    /// Whether the class's flow still fails in this way, by the same rules or the same cause, and no flow fails in another way than before.
    pub(super) fn shows(&mut self, scenario: &Scenario) -> bool {
        self.tried += 1;
        let path = self.path.as_ref().filter(|_| self.repair.is_none());
        let is_shown = self.failures(scenario).is_ok_and(|failures| {
            let is_by_path = |finding: &Finding| path.is_none_or(|path| *path == own_path(finding, scenario));
            let shows = |finding: &Finding| self.class.is_shown_by(finding) && is_by_path(finding);
            failures.iter().any(shows) && failures.iter().all(|finding| self.known.contains(&way(finding)))
        });
        is_shown && self.repair.as_ref().is_none_or(|repair| self.is_repaired_by(repair, scenario))
    }

    /// Whether the class keeps its promise without its cause, and no flow fails in another way than in the repaired whole.
    fn is_repaired_by(&self, repair: &Repair, scenario: &Scenario) -> bool {
        let ways = repair.repaired(scenario).and_then(|repaired| self.ways(&repaired).ok());
        ways.is_some_and(|ways| ways.is_subset(&self.known_repaired))
    }

    /// How flows fail.
    pub(super) fn ways(&self, scenario: &Scenario) -> Result<HashSet<Way>, MinimizeError> {
        Ok(self.failures(scenario)?.iter().map(way).collect())
    }

    fn failures(&self, scenario: &Scenario) -> Result<Vec<Finding>, MinimizeError> {
        Ok(verified(scenario, &self.options)?.failures(&self.options).cloned().collect())
    }

    /// Sends packets in a lab to reproduce the failure.
    pub(super) fn reproduce(&self, scenario: &Scenario) -> Result<LabResult, MinimizeError> {
        let options = Options { no_lab: false, ..self.options.clone() };
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
