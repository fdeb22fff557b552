//! The result of `svclab mutate` for machines. `svclab schema mutate` describes every field.

use schemars::JsonSchema;
use serde::Serialize;

use super::counts::Counts;
use super::mutant::{Baseline, Mutant, Mutants, Tried};
use crate::report::Machines;
use crate::report::json::ScenarioError;
use crate::text::path_text;

/// The mutants of all scenarios as a serializable value.
pub fn json(all: &[Mutants]) -> impl Serialize {
    let scenarios: Vec<Scenario<'_>> = all.iter().map(Scenario::of).collect();
    let has = |status: &str| scenarios.iter().any(|scenario| scenario.status == status);
    let status = ["error", "failed"].into_iter().find(|status| has(status)).unwrap_or("ok");
    let tried = all.iter().filter_map(|mutants| mutants.result.as_ref().ok());
    let total = Counts::of(tried.flat_map(|tried| &tried.mutants));
    Document { status, total, scenarios }
}

/// The results of `svclab mutate`.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The worst result: `ok`, `failed` (a mutant survived) or `error`.
    status: &'static str,
    /// The numbers of mutants of all scenarios.
    total: Counts,
    /// The scenarios, in the order of the command line.
    scenarios: Vec<Scenario<'a>>,
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    /// The name.
    name: &'a str,
    /// The file, as given on the command line.
    file: String,
    /// `ok`, `failed` (a mutant survived) or `error`.
    status: &'static str,
    /// The duration.
    seconds: f64,
    /// The reason why mutants were not tried; `null` if they were.
    error: Option<ScenarioError<'a>>,
    /// The machines and services at the start.
    machines: &'a Machines,
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

impl<'a> Scenario<'a> {
    fn of(mutants: &'a Mutants) -> Self {
        Self {
            name: &mutants.name,
            file: path_text(&mutants.file),
            status: match (&mutants.result, mutants.holds()) {
                (Err(_), _) => "error",
                (Ok(_), true) => "ok",
                (Ok(_), false) => "failed",
            },
            seconds: mutants.duration.as_secs_f64(),
            error: mutants.result.as_ref().err().map(ScenarioError::from),
            machines: &mutants.machines,
            found: mutants.result.as_ref().ok().map(Found::of),
        }
    }
}

/// The mutants of a scenario.
#[derive(Serialize, JsonSchema)]
struct Found<'a> {
    /// The results without a mutation.
    baseline: WithoutMutation<'a>,
    /// The numbers of the scenario's mutants by result.
    total: Counts,
    /// The number of mutants that were left out, because the kernel rejects them.
    rejected: usize,
    /// The mutants, in the order of the rules.
    mutants: &'a [Mutant],
}

impl<'a> Found<'a> {
    fn of(tried: &'a Tried) -> Self {
        let Tried { baseline, mutants, rejected } = tried;
        let Baseline { tests, failing_tests, failing_flows } = baseline;
        let baseline = WithoutMutation { tests: *tests, failing_tests, failing_flows: *failing_flows };
        Self { baseline, total: Counts::of(mutants), rejected: *rejected, mutants }
    }
}

/// The results without a mutation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WithoutMutation<'a> {
    /// The number of tests.
    tests: usize,
    /// The names of the tests that fail.
    failing_tests: &'a [String],
    /// The number of flows for which `verify` fails.
    failing_flows: usize,
}
