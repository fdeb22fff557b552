//! Mutation testing: whether `svclab verify` and a scenario's tests detect an error in its rules.
//!
//! [`mutate`] takes the rules of a scenario's first state, in either language, and applies one mutation after the other to them
//! ([`svclab_rules::mutate`]). For each mutant it determines whether any flow differs, whether `svclab verify` fails and whether the
//! scenario's own tests fail:
//!
//! - `mutant_list`: the mutants to try; `classes`: the packets that a mutant handles differently, by the questions that `verify` asks;
//!   `comparable_prediction`: predictions in a form that can be compared;
//! - `trial`: the lab in which mutants are installed one after the other;
//! - `mutant`, `counts`: the results; `render`: the page for a terminal; `json`: the JSON output.

mod classes;
mod comparable_prediction;
mod counts;
pub mod json;
mod mutant;
mod mutant_list;
mod render;
mod trial;

use std::borrow::Cow;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::lab::Backend;
use crate::report::{Machines, Trouble};
use crate::run::{RunError, guarded, in_parallel_with};
use crate::scenario::Scenario;
use crate::worker::{self, Kind, Slot, Texts, WorkerLocation};

pub use json::json;
pub use mutant::{Baseline, Example, Mutant, MutantStatus, Mutants, Tried};
pub use render::{Detail, page, summary};

/// Options of [`mutate`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Options {
    /// The number of labs that run in parallel; `None` stands for one per CPU.
    pub jobs: Option<NonZeroUsize>,
    /// The implementation that installs iptables rules.
    pub backend: Backend,
    /// The number of mutants to try for each scenario; `None` stands for all.
    pub sample: Option<usize>,
    /// The seed of the random sample.
    pub seed: u64,
    /// Where the workers with labs run, one for each of `jobs`: virtual machines, or processes of svclab, which call [`serve`] when started
    /// with the arguments [`WORKER`](crate::worker::WORKER) and `mutate`. If a worker's process dies, only its scenario fails. A worker
    /// parses [`Scenario::inputs`] again, so scenarios must be unchanged since they were read. `None` for threads of this process.
    #[serde(skip)]
    pub worker: Option<WorkerLocation>,
}

/// Tries the mutants of scenarios, several scenarios in parallel, and passes each result to `finished` in the scenarios' order.
pub fn mutate(scenarios: &[Scenario], options: &Options, finished: &(dyn Fn(&Mutants) + Sync)) -> Vec<Mutants> {
    let try_one = |slot: &mut Option<Slot<'_>>, scenario: &Scenario| {
        let begin = Instant::now();
        let result = match slot {
            Some(slot) => {
                let order = Order { scenario: Texts::of(scenario), options: Cow::Borrowed(options) };
                slot.ask(&order, &Arc::default()).map_err(|error| error.into_trouble())
            }
            None => tried(scenario, options),
        };
        let (name, file) = (scenario.name.clone(), scenario.file.clone());
        Mutants { name, file, machines: Machines::of(scenario), result, duration: begin.elapsed() }
    };
    let slot = || options.worker.as_ref().map(|program| Slot::new(program, Kind::Mutate));
    in_parallel_with(scenarios, options.jobs, slot, try_one, finished)
}

/// Tries the mutants of a scenario in this process. A panic is an error of this scenario alone.
fn tried(scenario: &Scenario, options: &Options) -> Result<Tried, Trouble> {
    guarded(|| trial::trials(scenario, options)).map_err(RunError::into_trouble)
}

/// An order to a worker: the mutants to try.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    options: Cow<'a, Options>,
}

/// Serves [`mutate`] as a lab's worker process, over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a parent svclab.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, _, _| tried(&order.scenario.scenario()?, &order.options))
}
