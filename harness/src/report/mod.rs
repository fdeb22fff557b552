//! What a run says: a tree of plain values, and renderers that turn it into text.
//!
//! ```text
//! RunReport ── ScenarioReport ── TestReport ── ProbeReport (verdict, observation)
//!     │
//!     ├─ console   lines for a person, with or without colours
//!     ├─ json      every value, with stable names
//!     ├─ junit     XML that CI systems show as a table
//!     └─ github    annotations at the lines of the scenarios
//! ```
//!
//! Alongside it stands `pcapng`: what the taps saw, as Wireshark reads it.
//!
//! Renderers are pure: what they need to know of terminal and environment the caller tells them.

pub mod console;
pub mod github;
pub mod json;
pub mod junit;
pub mod pcapng;
mod way;
mod words;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::judge::{Field, Verdict};
use crate::observation::Observation;
use crate::scenario::{Span, Test};

pub use words::{duration, probe_titles, probe_words};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunReport {
    /// The scenarios that were run, in the order of the input.
    pub scenarios: Vec<ScenarioReport>,
    /// Tests that a filter left out.
    pub filtered: usize,
    /// Wall-clock time.
    pub duration: Duration,
}

/// One scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScenarioReport {
    /// What the scenario shows, in a sentence.
    pub name: String,
    /// The file it was read from, as the user named it.
    pub file: PathBuf,
    /// Its tests, in order.
    pub tests: Vec<TestReport>,
    /// What went wrong with the lab, so that tests were not carried out.
    pub error: Option<Trouble>,
    /// What must be known of the results: fragments in lower case.
    pub notes: Vec<String>,
    /// Wall-clock time, lab included.
    pub duration: Duration,
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestReport {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// What was probed, in order.
    pub probes: Vec<ProbeReport>,
    /// Why not all of it was probed.
    pub error: Option<Trouble>,
    /// Wall-clock time.
    pub duration: Duration,
}

/// One probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeReport {
    /// Where the step stands.
    pub span: Span,
    /// Who sent what where: `pod/client > service/nginx:80 tcp`, see [`probe_words`].
    pub title: String,
    /// What was expected, in words: see [`expected_parts`](crate::judge::expected_parts).
    pub expected: Vec<(Field, String)>,
    /// What was seen.
    pub observation: Observation,
    /// What that means.
    pub verdict: Verdict,
    /// What promise, prediction and kernel say of it, for a probe that failed.
    pub diagnosis: Option<Diagnosis>,
    /// For a probe that failed, the rules that decided.
    pub rules: Vec<RuleExcerpt>,
    /// The command that looks further, for a probe that failed.
    pub look: Option<String>,
    /// Wall-clock time.
    pub duration: Duration,
}

/// Three sources about one flow of a probe that failed, which was sent once more for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// What is promised; `None` where the sender has no address to be promised anything.
    pub promise: Option<String>,
    /// What is predicted: each branch with its share.
    pub prediction: Vec<String>,
    /// Why nothing is predicted, where that is so.
    pub unpredicted: Option<String>,
    /// What was observed this time.
    pub observation: String,
    /// Who disagrees with whom, and what that means.
    pub meaning: String,
    /// How far the kernel met the rules that are predicted.
    pub kernel: Option<KernelWay>,
    /// Why the kernel was not asked for the rules that it met, where that is so.
    pub untraced: Option<String>,
}

/// How far the kernel went a predicted way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelWay {
    /// How many rules it met as predicted, one after the other.
    pub alike: usize,
    /// How many it met altogether.
    pub met: usize,
    /// Where it first left that way, in lines: where, what was predicted, what the kernel met.
    pub difference: Option<Vec<String>>,
}

/// Some rules of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleExcerpt {
    /// Whose: `node/worker`.
    pub place: String,
    /// The rules, one a line.
    pub lines: Vec<String>,
}

/// Something went wrong, so that there is nothing to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whose fault it is.
    pub cause: Cause,
    /// What: a fragment in lower case; may have several lines.
    pub message: String,
    /// A sentence that names the fix.
    pub help: Option<String>,
    /// Where in the input.
    pub span: Option<Span>,
}

/// Whose fault a trouble is. The order is that of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The input is wrong.
    Input,
    /// The environment lacks something.
    Environment,
    /// svclab itself failed.
    Internal,
}

impl Cause {
    /// The name in machine-readable reports: `input`, `environment`, `internal`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Environment => "environment",
            Self::Internal => "internal",
        }
    }
}

/// What came of a test, a scenario or a run. The order is that of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Everything was as expected.
    Ok,
    /// Something was not as expected.
    Failed,
    /// Something could not be tried.
    Error,
}

impl Status {
    /// The name in machine-readable reports: `ok`, `failed`, `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Error => "error",
        }
    }
}

/// How many tests came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Scenarios.
    pub scenarios: usize,
    /// Tests that held.
    pub ok: usize,
    /// Tests that did not hold.
    pub failed: usize,
    /// Tests that could not be tried.
    pub errors: usize,
    /// Scenarios with which something went wrong beside their tests: a capture that could not be written, or no test at all.
    pub scenario_errors: usize,
}

impl Trouble {
    /// What is said of a test that comes after what went wrong with its lab.
    pub(crate) fn of_what_follows(&self) -> Self {
        let message = "not carried out, because the lab failed".to_owned();
        Self { cause: self.cause, message, help: None, span: None }
    }
}

impl TestReport {
    /// The report of a test whose lab failed before it.
    pub(crate) fn not_carried_out(test: &Test, lab: &Trouble) -> Self {
        let (name, span, error) = (test.name.clone(), test.span.clone(), Some(lab.of_what_follows()));
        Self { name, span, probes: Vec::new(), error, duration: Duration::ZERO }
    }

    /// What came of it. A test that probed nothing has shown nothing: that is an error too.
    pub fn status(&self) -> Status {
        if self.error.is_some() || self.probes.is_empty() {
            Status::Error
        } else if self.probes.iter().all(|probe| probe.verdict.held) {
            Status::Ok
        } else {
            Status::Failed
        }
    }
}

impl ScenarioReport {
    /// True where all that is wrong with a test is that its lab failed.
    pub(crate) fn is_told_by_lab(&self, test: &TestReport) -> bool {
        self.error.as_ref().is_some_and(|lab| test.error.as_ref() == Some(&lab.of_what_follows()))
    }

    /// True where what is wrong with it is told by none of its tests.
    pub(crate) fn is_wrong_by_itself(&self) -> bool {
        let told = self.tests.iter().any(|test| test.status() == Status::Error);
        (self.error.is_some() || self.tests.is_empty()) && !told
    }

    /// What came of it: the worst of its tests. A scenario without tests is an error.
    pub fn status(&self) -> Status {
        if self.error.is_some() {
            return Status::Error;
        }
        self.tests.iter().map(TestReport::status).max().unwrap_or(Status::Error)
    }
}

impl RunReport {
    /// What came of it: the worst of its scenarios; ok where there are none.
    pub fn status(&self) -> Status {
        self.scenarios.iter().map(ScenarioReport::status).max().unwrap_or(Status::Ok)
    }

    /// The gravest cause of what could not be tried.
    pub fn cause(&self) -> Option<Cause> {
        let tests = self.scenarios.iter().flat_map(|scenario| &scenario.tests).filter_map(|test| test.error.as_ref());
        let scenarios = self.scenarios.iter().filter_map(|scenario| scenario.error.as_ref());
        tests.chain(scenarios).map(|trouble| trouble.cause).max()
    }

    /// How many tests came out how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { scenarios: self.scenarios.len(), ..Counts::default() };
        for scenario in &self.scenarios {
            for test in &scenario.tests {
                match test.status() {
                    Status::Ok => counts.ok += 1,
                    Status::Failed => counts.failed += 1,
                    Status::Error => counts.errors += 1,
                }
            }
            counts.scenario_errors += usize::from(scenario.is_wrong_by_itself());
        }
        counts
    }
}
