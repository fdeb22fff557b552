//! Flows on which the sources disagree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sources::Disagreement;

/// Flows on which the sources disagree in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The sources that disagree.
    pub disagreement: Disagreement,
    /// The difference, as a lower-case fragment: `dropped by table filter: -A FORWARD -j DROP`.
    pub what: String,
    /// The number of flows.
    pub flows: usize,
    /// One of them.
    pub example: Example,
}

/// A flow on which the sources disagree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// The flow in words: `pod/client > 10.96.0.10:80 tcp`.
    pub flow: String,
    /// The service and port, if the flow is sent to a service.
    pub service: Option<String>,
    /// The promise.
    pub promise: String,
    /// The prediction for the packet at fault: each branch with its share; empty if nothing is predicted.
    pub prediction: Vec<String>,
    /// Whether a packet was sent.
    pub is_observed: bool,
    /// The observation.
    pub observation: String,
    /// The rules on the path of the decisive branch, in order, with the hook before each.
    pub rules: Vec<String>,
    /// The command that explains the flow, unless a later packet of its connection is at fault: only first packets are explained.
    pub explain: Option<String>,
}

/// Findings by cause, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(Disagreement, String), Finding>);

impl Findings {
    /// Counts a flow. The example is created only for the first of its kind, and again for the first that was sent.
    pub(super) fn count(
        &mut self,
        disagreement: Disagreement,
        what: String,
        is_sent: bool,
        example: impl FnOnce() -> Example,
    ) {
        let key = (disagreement, what);
        if let Some(finding) = self.0.get_mut(&key) {
            finding.flows += 1;
            if is_sent && !finding.example.is_observed {
                finding.example = example();
            }
        } else {
            let finding = Finding { disagreement, what: key.1.clone(), flows: 1, example: example() };
            self.0.insert(key, finding);
        }
    }

    /// Adds those of other flows.
    pub(super) fn merge(&mut self, other: Self) {
        for (key, more) in other.0 {
            match self.0.get_mut(&key) {
                Some(finding) => {
                    finding.flows += more.flows;
                    if more.example.is_observed && !finding.example.is_observed {
                        finding.example = more.example;
                    }
                }
                None => {
                    self.0.insert(key, more);
                }
            }
        }
    }

    /// All findings: those that fail first, and then by frequency.
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.0.into_values().collect();
        findings.sort_by_key(|finding| (finding.disagreement, std::cmp::Reverse(finding.flows)));
        findings
    }
}
