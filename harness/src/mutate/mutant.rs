//! Mutants and their results.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Machines, Trouble};

/// The result of trying a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MutantStatus {
    /// The predictions for all flows that `verify` sends are unchanged: verdict, addresses, reply and share. The source port that
    /// the kernel chooses is not compared.
    Equivalent,
    /// `verify` fails for a flow that differs.
    Killed,
    /// For a flow that differs, `verify` fails without the mutation and passes with it.
    FailingBefore,
    /// Flows differ only in what the Service API does not specify: which node address masquerades a client, whether a pod's address
    /// is kept toward destinations outside of the cluster, whether a packet without a receiver is rejected or dropped, how a reply
    /// returns that bypasses the node, or flows without a promise.
    Unspecified,
    /// Flows differ, and `verify` passes.
    Survived,
}

/// A mutant and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mutant {
    /// The kind of mutation: `lost negation`.
    pub operator: Cow<'static, str>,
    /// The network namespace.
    pub netns: String,
    /// The address family: `IPv4` or `IPv6`.
    pub family: String,
    /// The table: `nat`, `ip kube-proxy`.
    pub table: String,
    /// The kind of container: `chain` for a rule, `set` for an element of a set or map.
    pub container: Cow<'static, str>,
    /// The name of the chain, set or map.
    pub name: String,
    /// The position in the container, from 1.
    pub number: usize,
    /// The original rule or element.
    pub before: String,
    /// The replacement; null if the rule or element is removed or moved.
    pub after: Option<String>,
    /// The number of flows that differ.
    pub flows: usize,
    /// The result.
    pub result: MutantStatus,
    /// Whether a test of the scenario fails that passes without the mutation. Only tests with a flow whose prediction changes are run.
    pub tests_fail: bool,
    /// A flow that differs, with both predictions, for a mutant that survived or that the tests missed.
    pub example: Option<Example>,
}

/// A flow that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// The flow: `node/worker > 172.18.0.2:30080 tcp`.
    pub flow: String,
    /// The prediction for the unmodified rules.
    pub before: String,
    /// The prediction for the mutant.
    pub after: String,
}

/// What is mutated, and where: `lost negation on node-1, IPv4: table nat, chain KUBE-SVC-X, rule 1`.
impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, netns, family, table, container, name, number, .. } = self;
        let kind = if *container == "chain" { "rule" } else { "element" };
        write!(f, "{operator} on {netns}, {family}: table {table}, {container} {name}, {kind} {number}")
    }
}

impl Mutant {
    /// What detects it, or why nothing does.
    #[doc(hidden)]
    pub fn words(&self) -> &'static str {
        match self.result {
            MutantStatus::Equivalent => "equivalent",
            MutantStatus::Killed if self.tests_fail => "killed by tests",
            MutantStatus::Killed => "killed by verify",
            MutantStatus::FailingBefore => "failing before",
            MutantStatus::Unspecified => "unspecified",
            MutantStatus::Survived => "survived",
        }
    }

    /// Whether `verify` detects it but no test of the scenario does.
    pub(crate) fn is_missed(&self) -> bool {
        self.result == MutantStatus::Killed && !self.tests_fail
    }
}

/// The results without a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// The number of tests of the first state; a test that changes objects is run up to its first change.
    pub tests: usize,
    /// The names of the tests that fail, and therefore cannot detect mutants.
    pub failing_tests: Vec<String>,
    /// The number of flows for which `verify` fails.
    pub failing_flows: usize,
}

/// The results of the mutants of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tried {
    /// The results without a mutation.
    pub baseline: Baseline,
    /// The mutants with their results.
    pub mutants: Vec<Mutant>,
    /// The number of mutants that were left out, because the kernel rejects them.
    pub rejected: usize,
}

/// All mutants of a scenario.
#[derive(Debug)]
pub struct Mutants {
    /// The name of the scenario.
    pub name: String,
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Its machines and services.
    pub(crate) machines: Machines,
    /// The results, or the reason why no mutant could be tried.
    pub result: Result<Tried, Trouble>,
    /// The duration.
    pub duration: Duration,
}

impl Mutants {
    /// Whether no mutant survived.
    pub fn holds(&self) -> bool {
        self.result
            .as_ref()
            .is_ok_and(|tried| tried.mutants.iter().all(|mutant| mutant.result != MutantStatus::Survived))
    }
}
