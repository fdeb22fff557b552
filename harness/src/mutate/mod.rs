//! Mutants: rule sets with one thing wrong, and who notices.
//!
//! [`mutate`] takes the rules of a scenario's first state, in either language, makes one mistake after the other in them
//! ([`svclab_rules::mutate`]), and asks for each whether any flow differs, whether `svclab verify` finds it and whether the
//! scenario's own tests do:
//!
//! - `candidate`: the mutants to try; `forecast`: what is predicted of flows, before and after;
//! - `trial`: one lab in which mutants take turns;
//! - `render`: the table for a person, and JSON.

mod candidate;
mod forecast;
mod render;
mod trial;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::lab::Backend;
use crate::report::Trouble;
use crate::run::{guarded, in_parallel};
use crate::scenario::Scenario;

pub use render::{json, table};

/// How mutants are tried.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one a processor.
    pub jobs: Option<NonZeroUsize>,
    /// What installs iptables rules.
    pub backend: Backend,
    /// How many mutants of each scenario are tried; all where there is none.
    pub sample: Option<usize>,
    /// What the choice of a sample starts from.
    pub seed: u64,
}

/// What becomes of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mutant {
    /// What was done, in words: `lost negation`.
    pub operator: &'static str,
    /// Where: the namespace.
    pub space: String,
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
    /// Whether a test of the scenario fails. Only those are carried out of whose flows something else is predicted.
    pub tests_fail: bool,
    /// A flow that differs and that `verify` does not mind, of a mutant that survived.
    pub example: Option<String>,
}

/// All mutants of a scenario.
#[derive(Debug)]
pub struct Mutants {
    /// What the scenario shows.
    pub name: String,
    /// The file, as the user named it.
    pub file: PathBuf,
    /// What became of each, or what kept them from being tried.
    pub result: Result<Vec<Mutant>, Trouble>,
    /// How long it took.
    pub duration: Duration,
}

impl Mutants {
    /// Whether `verify` found every mutant that is not equivalent.
    pub fn holds(&self) -> bool {
        self.result.as_ref().is_ok_and(|mutants| mutants.iter().all(|mutant| mutant.fate != Fate::Survived))
    }
}

/// Tries the mutants of scenarios, several scenarios at a time, and hands each one's result to `finished` in their order.
pub fn mutate(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&Mutants) + Sync)) -> Vec<Mutants> {
    let try_one = |scenario: &Scenario| {
        let begin = Instant::now();
        let result = guarded(|| trial::trials(scenario, options)).map_err(crate::run::RunError::into_trouble);
        let (name, file) = (scenario.name.clone(), scenario.file.clone());
        Mutants { name, file, result, duration: begin.elapsed() }
    };
    in_parallel(scenarios, options.jobs, try_one, finished)
}
