//! Flows that the voices part about.

use std::collections::BTreeMap;

/// Who disagrees with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Disagreement {
    /// Prediction and observation agree with each other and not with the promise, and rules decide.
    Rules,
    /// The same, and in a network that is in order the same rules would keep the promise: kernel settings or bridges do not let
    /// them.
    Network,
    /// Nothing is predicted, and the promise is not what was seen.
    Unkept,
    /// Promise and prediction agree with each other and not with what was seen.
    Kernel,
    /// The prediction alone is wrong.
    Model,
    /// All three differ.
    All,
    /// What is promised happens, and rules on the way are not modelled.
    Unknown,
    /// The release is known not to keep the promise here, and does not.
    Known,
}

impl Disagreement {
    /// Whether a verification fails by it. A fault of the release of which the promise itself says so is none.
    pub fn fails(self, allow_unknown: bool) -> bool {
        match self {
            Self::Known => false,
            Self::Unknown => !allow_unknown,
            Self::Rules | Self::Network | Self::Unkept | Self::Kernel | Self::Model | Self::All => true,
        }
    }

    /// What it means, in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Rules => "The rules do not do what is promised, and the kernel does what the rules say.",
            Self::Network => {
                "The network, not the rules: with default settings and bridges in order, these rules would keep the promise."
            }
            Self::Unkept => {
                "What is promised does not happen; the rules could not be walked, so they or the kernel may be why."
            }
            Self::Kernel => "The rules say what is promised, and the kernel does something else.",
            Self::Model => "What is promised happens, and svclab's walk of the rules is wrong: please report it.",
            Self::All => "All three differ: the rules break the promise, and the kernel does not do what they say.",
            Self::Unknown => {
                "What is promised happens, but a rule on the way is not modelled, so nobody can say whether it always does."
            }
            Self::Known => "This release is known not to keep the promise here.",
        }
    }
}

/// Flows that the voices part about in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Who disagrees with whom.
    pub disagreement: Disagreement,
    /// What differs, as a lower-case fragment: `dropped by table filter: -A FORWARD -j DROP`.
    pub what: String,
    /// How many flows.
    pub flows: usize,
    /// One of them.
    pub example: Example,
}

/// A flow that the voices part about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The flow in words: `pod/client > 10.96.0.10:80 tcp`.
    pub flow: String,
    /// The service and port, where the address is one's.
    pub service: Option<String>,
    /// What should happen.
    pub promise: String,
    /// What would happen: each branch with its share; nothing where nothing is predicted.
    pub prediction: Vec<String>,
    /// What did happen.
    pub observation: String,
    /// The rules on the way of the branch that matters, in order, with the hook before each.
    pub rules: Vec<String>,
}

/// Findings by cause, while they are gathered.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(Disagreement, String), Finding>);

impl Findings {
    /// Counts a flow; the example is only made for the first of its kind.
    pub(super) fn count(&mut self, disagreement: Disagreement, what: String, example: impl FnOnce() -> Example) {
        let new = |what: &String| Finding { disagreement, what: what.clone(), flows: 0, example: example() };
        let key = (disagreement, what);
        if let Some(finding) = self.0.get_mut(&key) {
            finding.flows += 1;
        } else {
            let finding = Finding { flows: 1, ..new(&key.1) };
            self.0.insert(key, finding);
        }
    }

    /// All of them: those that fail first, and of each kind the most frequent first.
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.0.into_values().collect();
        findings.sort_by_key(|finding| (finding.disagreement, std::cmp::Reverse(finding.flows)));
        findings
    }
}
