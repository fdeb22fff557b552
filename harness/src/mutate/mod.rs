//! Mutants: rule sets with one thing wrong, and who notices.
//!
//! [`mutate`] takes the rules of a scenario's first state, in either language, makes one mistake after the other in them
//! ([`svclab_rules::mutate`]), and asks for each whether any flow differs, whether `svclab verify` finds it and whether the
//! scenario's own tests do:
//!
//! - `candidate`: the mutants to try; `forecast`: what is predicted of flows, before and after;
//! - `trial`: one lab in which mutants take turns;
//! - `mutant`, `counts`: what became of them; `render`: the table for a person; `json`: the same for machines.

mod candidate;
mod counts;
mod forecast;
pub mod json;
mod mutant;
mod render;
mod trial;

use std::num::NonZeroUsize;
use std::time::Instant;

use crate::lab::Backend;
use crate::run::{guarded, in_parallel};
use crate::scenario::Scenario;

pub use json::json;
pub use mutant::{Baseline, Fate, Mutant, Mutants, Tried};
pub use render::{Style, summary, table};

/// How mutants are tried.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many labs run at the same time; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// What installs iptables rules.
    pub backend: Backend,
    /// How many mutants of each scenario are tried; all where there is none.
    pub sample: Option<usize>,
    /// What the choice of a sample starts from.
    pub seed: u64,
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
