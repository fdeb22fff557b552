//! Results, and the number of tests with each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::counted;

/// The result of a test, a scenario or a run, in the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// Everything was as expected.
    Ok,
    /// Something was not as expected.
    Failed,
    /// Something could not be tested.
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

/// The numbers of tests by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Scenarios.
    pub scenarios: usize,
    /// Tests that passed.
    pub ok: usize,
    /// Tests that passed, but not at their first attempt.
    pub flaky: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that could not be run.
    pub errors: usize,
    /// Scenarios with an error outside of their tests: a capture that could not be written, or no tests at all.
    pub scenario_errors: usize,
}

impl Counts {
    /// All tests.
    pub fn tests(&self) -> usize {
        self.ok + self.failed + self.errors
    }
}

/// `3 scenarios, 12 tests: 11 ok (1 flaky), 1 failed`
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [scenarios, tests] = [counted(self.scenarios, "scenario"), counted(self.tests(), "test")];
        write!(f, "{scenarios}, {tests}: {} ok", self.ok)?;
        if self.flaky > 0 {
            write!(f, " ({} flaky)", self.flaky)?;
        }
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        if self.errors > 0 {
            write!(f, ", {}", counted(self.errors, "error"))?;
        }
        if self.scenario_errors > 0 {
            write!(f, "; {}", counted(self.scenario_errors, "scenario error"))?;
        }
        Ok(())
    }
}
