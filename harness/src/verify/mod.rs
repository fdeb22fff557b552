//! Compares promise, prediction and observation for every vantage point and service address.
//!
//! Each flow has three independent sources: the *promise* of the Service API
//! ([`svclab_rules::promise`]), the *prediction* from walking the rules ([`crate::predict`]), and the *observation* of a real
//! packet in a lab ([`crate::probe`]). [`verify`] compares all three for the initial state of a scenario:
//!
//! - `questions`: what is asked, and what is known beforehand;
//! - `run`: how a lab is built and the flows are sent; `verification`: the result;
//! - `crate::sources`: which sources disagree on one flow;
//! - `finding`: flows on which the sources disagree, by cause;
//! - `kernel`: prediction and observation alone, for any flows;
//! - `render`: the page for a person; `json`: the same for machines.

mod finding;
pub mod json;
mod kernel;
mod questions;
mod render;
mod run;
mod verification;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Instant;

use crate::lab::Backend;
use crate::report::{Machines, Trouble};
use crate::run::{guarded, in_parallel};
use crate::scenario::{Note, Scenario};

pub use finding::{Example, Finding};
pub use json::json;
pub use kernel::{Agreement, Contradiction, compare_with_kernel};
pub(crate) use questions::{QuestionList, vantages};
pub use render::{page, summary};
pub use verification::{AddressKind, Asked, Verification};

pub use crate::sources::Disagreement;

/// How scenarios are verified.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// What installs iptables rules.
    pub backend: Backend,
    /// Flows that match a rule that svclab does not model are not failures.
    pub allow_unknown: bool,
}

/// A scenario's verification, or what kept it from being made.
#[derive(Debug)]
pub struct Verified {
    /// What the scenario shows.
    pub name: String,
    /// The file, as the user named it.
    pub file: std::path::PathBuf,
    /// Its machines and services.
    pub machines: Machines,
    /// What came of it.
    pub result: Result<Verification, Trouble>,
    /// The tables other than kube-proxy's that a node's rules have and the lab does not, each with the number of its rules.
    pub left_out: Vec<String>,
}

impl Verified {
    /// Whether all sources agree.
    pub fn holds(&self, options: &Options) -> bool {
        self.result.as_ref().is_ok_and(|verification| verification.failures(options).next().is_none())
    }
}

/// Verifies scenarios, several at a time, and hands each one's result to `finished` in their order, as soon as it is
/// there.
pub fn verify(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&Verified) + Sync)) -> Vec<Verified> {
    let verify_one = |scenario: &Scenario| {
        let begin = Instant::now();
        let tables = scenario.notes.iter().filter_map(Note::left_out_tables).flatten().map(str::to_owned);
        let left_out = tables.collect::<BTreeSet<_>>().into_iter().collect();
        let result = guarded(|| run::run(scenario, options));
        let result = result.map(|verification| Verification { duration: begin.elapsed(), ..verification });
        let result = result.map_err(crate::run::RunError::into_trouble);
        let (name, file, machines) = (scenario.name.clone(), scenario.file.clone(), Machines::of(scenario));
        Verified { name, file, machines, result, left_out }
    };
    in_parallel(scenarios, options.jobs, verify_one, finished)
}
