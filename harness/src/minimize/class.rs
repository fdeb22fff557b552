//! A failing class: flows that fail in the same way.

use std::fmt;
use std::num::NonZeroUsize;

use super::missing_rules::MissingRules;
use super::{LabResult, MinimizeError};
use crate::scenario::Scenario;
use crate::sources::Disagreement;
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
    /// The rule that decides where the flow goes, if there is one.
    rule: Option<String>,
}

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
            rule: deciding(finding).cloned(),
        }
    }

    /// The sender of its flow, as a scenario names it: without a source address that is not its own.
    fn sender(&self) -> &str {
        self.flow.split(' ').next().unwrap_or_default()
    }

    fn is(&self, finding: &Finding) -> bool {
        (finding.disagreement, &finding.what) == (self.disagreement, &self.what)
            && first_word(&finding.example.promise) == self.promised
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
    options: Options,
    /// Whether the rule that decides about the class's flow must stay the one that decides: without any rules, other packets may be lost in
    /// the same way.
    keeps_rule: bool,
    /// The missing rules, if they are the cause: with them, the class must keep its promise.
    missing: Option<MissingRules>,
    /// The number of scenarios tried.
    pub(super) tried: usize,
}

impl<'c> Judge<'c> {
    pub(super) fn new(class: &'c FailingClass, options: &Options, whole: &Scenario) -> Self {
        let own = Options {
            jobs: NonZeroUsize::new(1),
            no_lab: true,
            service: class.service.clone(),
            from: Some(class.sender().to_owned()),
            node: None,
            ..options.clone()
        };
        let mut judge = Self { class, options: own, keeps_rule: class.rule.is_some(), missing: None, tried: 0 };
        // Of flows that fail in the same way, another one may be the example for this sender and service.
        judge.keeps_rule = judge.keeps_rule && judge.shows(whole);
        judge.tried = 0;
        judge
    }

    /// Looks for missing rules that are the cause: with them, the class keeps its promise.
    pub(super) fn find_missing_rules(&mut self, scenario: &Scenario) {
        self.missing = MissingRules::find(scenario, |repaired| self.holds(repaired));
    }

    /// Whether no flow of the class fails in this way.
    pub(super) fn holds(&mut self, scenario: &Scenario) -> bool {
        self.tried += 1;
        verified(scenario, &self.options)
            .is_ok_and(|verification| !verification.failures(&self.options).any(|finding| self.class.is(finding)))
    }

    /// Whether the class's sender still fails in this way, for the same service, and because of the same rule, or because of the same
    /// missing one.
    pub(super) fn shows(&mut self, scenario: &Scenario) -> bool {
        self.tried += 1;
        let is_by_rule = |finding: &Finding| !self.keeps_rule || deciding(finding) == self.class.rule.as_ref();
        let found = verified(scenario, &self.options);
        let fails = found.is_ok_and(|verification| {
            verification.failures(&self.options).any(|finding| self.class.is(finding) && is_by_rule(finding))
        });
        let repaired = |missing: &MissingRules| missing.repaired(scenario);
        fails
            && match self.missing.as_ref().map(repaired) {
                None => true,
                Some(None) => false,
                Some(Some(repaired)) => self.holds(&repaired),
            }
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

/// The last rule that decides where the example goes. Rules at POSTROUTING choose its source, which the words of a class contain.
fn deciding(finding: &Finding) -> Option<&String> {
    finding.example.rules.iter().rev().find(|rule| !rule.contains(" POSTROUTING "))
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
