//! Mutation testing: whether `svclab verify` and a scenario's tests detect an error in its rules.
//!
//! [`mutate`] takes the rules of a scenario's first state, in either language, and applies one mutation after the other to them
//! ([`svclab_rules::mutate`]). For each it determines whether any flow differs, whether `svclab verify` fails and whether the
//! scenario's own tests do:
//!
//! - `candidate`: the mutants to try; `classes`: the packets of which a mutant makes something else, as `verify` asks about them;
//!   `forecast`: predictions in a form that is compared;
//! - `trial`: the lab in which mutants are installed one after the other;
//! - `mutant`, `counts`: the results; `render`: the page for a terminal; `json`: the JSON output.

mod candidate;
mod classes;
mod counts;
mod forecast;
pub mod json;
mod mutant;
mod render;
mod trial;

use std::num::NonZeroUsize;
use std::time::Instant;

use crate::lab::Backend;
use crate::report::Machines;
use crate::run::{guarded, in_parallel};
use crate::scenario::Scenario;

pub use json::json;
pub use mutant::{Baseline, Fate, Mutant, Mutants, Tried};
pub use render::{Style, page, summary};

/// Options of [`mutate`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// The implementation that installs iptables rules.
    pub backend: Backend,
    /// The number of mutants to try of each scenario; `None` stands for all.
    pub sample: Option<usize>,
    /// The seed of the random sample.
    pub seed: u64,
}

/// Tries the mutants of scenarios, several scenarios in parallel, and passes each result to `finished` in the scenarios' order.
pub fn mutate(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&Mutants) + Sync)) -> Vec<Mutants> {
    let try_one = |scenario: &Scenario| {
        let begin = Instant::now();
        let result = guarded(|| trial::trials(scenario, options)).map_err(crate::run::RunError::into_trouble);
        let (name, file) = (scenario.name.clone(), scenario.file.clone());
        Mutants { name, file, machines: Machines::of(scenario), result, duration: begin.elapsed() }
    };
    in_parallel(scenarios, options.jobs, try_one, finished)
}
