//! Mutants, and what became of them.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::Trouble;

/// What becomes of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// No flow that `verify` asks about is predicted to differ: verdict, addresses, answer, or share. The port that a kernel gives to
    /// a source does not count.
    Equivalent,
    /// `verify` fails at a flow that differs.
    Killed,
    /// `verify` fails without the mistake, and not with it, at flows that differ.
    Mended,
    /// Flows differ, but only in what the documents leave open: which of its addresses a node lends to a client, whether a pod keeps
    /// its own toward who is no pod, whether a packet that nobody takes is refused or lost, how an answer comes back that goes past
    /// the node, or anything of which nothing is promised.
    Open,
    /// Flows differ, and `verify` finds all of them to be as promised.
    Survived,
}

/// A mutant and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mutant {
    /// What was done, in words: `lost negation`.
    pub operator: &'static str,
    /// Where: the namespace.
    pub netns: String,
    /// The family: `IPv4` or `IPv6`.
    pub family: String,
    /// The table: `nat`, `ip kube-proxy`.
    pub table: String,
    /// What holds the rule or element: `chain`, or `set` for a set or map.
    pub holder: &'static str,
    /// Its name.
    pub name: String,
    /// The position in it, from 1.
    pub number: usize,
    /// The rule or element as it was.
    pub was: String,
    /// What stands there instead, where something does.
    pub is: Option<String>,
    /// How many flows differ.
    pub flows: usize,
    /// What `verify` makes of it.
    pub fate: Fate,
    /// Whether a test of the scenario fails that holds without the mistake. Only those are carried out of whose flows something else
    /// is predicted.
    pub tests_fail: bool,
    /// A flow that differs, with what was and what is predicted, of a mutant that survived or that the tests missed.
    pub example: Option<String>,
}

impl Mutant {
    /// Whether `verify` finds it, and no test of the scenario does.
    pub fn is_missed(&self) -> bool {
        self.fate == Fate::Killed && !self.tests_fail
    }
}

/// How it is without any mistake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Baseline {
    /// How many tests the first state has; one that changes objects counts as far as its first change.
    pub tests: usize,
    /// The names of those that fail, which find no mistake.
    pub failing: Vec<String>,
    /// About how many flows the sources part, so that `verify` fails.
    pub parted: usize,
}

/// What the mutants of a scenario came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tried {
    /// How it is without any mistake.
    pub baseline: Baseline,
    /// What became of each mutant.
    pub mutants: Vec<Mutant>,
}

/// All mutants of a scenario.
#[derive(Debug)]
pub struct Mutants {
    /// What the scenario shows.
    pub name: String,
    /// The file, as the user named it.
    pub file: PathBuf,
    /// What became of them, or what kept them from being tried.
    pub result: Result<Tried, Trouble>,
    /// How long it took.
    pub duration: Duration,
}

impl Mutants {
    /// Whether `verify` found every mutant that is not equivalent.
    pub fn holds(&self) -> bool {
        self.result.as_ref().is_ok_and(|tried| tried.mutants.iter().all(|mutant| mutant.fate != Fate::Survived))
    }
}
