//! The results of mutants as JSON. Names are stable: fields may be added, none is renamed or removed without a new `version`.
//!
//! | path | meaning |
//! | --- | --- |
//! | `version` | 1 |
//! | `status`, also of scenarios | `ok`, `failed` (a mutant survived) or `error` |
//! | `scenarios[]` | `name`, `file`, `status`, `seconds`, `error`; where mutants were tried, `baseline`, `total`, `mutants[]` |
//! | `baseline` | without a mutation: `tests` (their number), `failingTests[]` (names), `failingFlows` (for which `verify` fails) |
//! | `total`, also of the document | `mutants`, `equivalent`, `killedByTests`, `killedByVerify`, `missedByTests`, `failingBefore`, `unspecified`, `survived` |
//! | `mutants[]` | `operator`, `netns`, `family`, `table`, `holder`, `name`, `number`, `was`, `is`, `flows` (that differ), `fate`, `testsFail`, `example` |
//! | `error` | `cause` (`input`, `environment`, `internal`), `message`, `help` |

use schemars::JsonSchema;
use serde::Serialize;

use super::counts::Counts;
use super::mutant::{Baseline, Mutant, Mutants, Tried};
use crate::report::Trouble;
use crate::text::{self, path_text};

/// The results of the mutants of all scenarios, as an indented JSON document.
///
/// # Errors
///
/// Where the JSON writer fails; there is no input known that makes it.
pub fn json(all: &[Mutants]) -> Result<String, serde_json::Error> {
    let scenarios: Vec<Scenario<'_>> = all.iter().map(Scenario::of).collect();
    let has = |status: &str| scenarios.iter().any(|scenario| scenario.status == status);
    let status = ["error", "failed"].into_iter().find(|status| has(status)).unwrap_or("ok");
    let tried = all.iter().filter_map(|mutants| mutants.result.as_ref().ok());
    let total = Counts::of(tried.flat_map(|tried| &tried.mutants));
    text::json(&Document { version: 1, status, total, scenarios })
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "svclab mutate --format json")]
pub struct Document<'a> {
    version: u32,
    status: &'static str,
    total: Counts,
    scenarios: Vec<Scenario<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct Scenario<'a> {
    name: &'a str,
    file: String,
    status: &'static str,
    seconds: f64,
    error: Option<Error<'a>>,
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
            error: mutants.result.as_ref().err().map(Error::of),
            found: mutants.result.as_ref().ok().map(Found::of),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Error<'a> {
    cause: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> Error<'a> {
    fn of(trouble: &'a Trouble) -> Self {
        Self { cause: trouble.cause.as_str(), message: &trouble.message, help: trouble.help.as_deref() }
    }
}

#[derive(Serialize, JsonSchema)]
struct Found<'a> {
    /// The results without a mutation.
    baseline: WithoutMutation<'a>,
    /// The numbers of the scenario's mutants by result.
    total: Counts,
    /// The mutants, in the order of the rules.
    mutants: &'a [Mutant],
}

impl<'a> Found<'a> {
    fn of(tried: &'a Tried) -> Self {
        let Tried { baseline, mutants } = tried;
        let Baseline { tests, failing_tests, failing_flows } = baseline;
        let baseline = WithoutMutation { tests: *tests, failing_tests, failing_flows: *failing_flows };
        Self { baseline, total: Counts::of(mutants), mutants }
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
