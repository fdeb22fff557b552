//! How many mutants came to what end.

use schemars::JsonSchema;
use serde::Serialize;

use super::mutant::{Fate, Mutant};

/// How many mutants came to what end.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// All of them.
    pub(super) mutants: usize,
    /// No flow differs.
    pub(super) equivalent: usize,
    /// A test of the scenario fails.
    pub(super) killed_by_tests: usize,
    /// `verify` fails.
    pub(super) killed_by_verify: usize,
    /// `verify` fails, and no test does.
    pub(super) missed_by_tests: usize,
    /// `verify` fails without the mistake only.
    pub(super) mended: usize,
    /// Flows differ in what the documents leave open.
    pub(super) open: usize,
    /// Flows differ, and `verify` finds them as promised.
    pub(super) survived: usize,
}

impl Counts {
    pub(super) fn of<'m>(mutants: impl IntoIterator<Item = &'m Mutant>) -> Self {
        let mut counts = Self::default();
        mutants.into_iter().for_each(|mutant| counts.add(mutant));
        counts
    }

    pub(super) fn add(&mut self, mutant: &Mutant) {
        self.mutants += 1;
        self.killed_by_tests += usize::from(mutant.tests_fail);
        self.missed_by_tests += usize::from(mutant.is_missed());
        *match mutant.fate {
            Fate::Equivalent => &mut self.equivalent,
            Fate::Killed => &mut self.killed_by_verify,
            Fate::Mended => &mut self.mended,
            Fate::Open => &mut self.open,
            Fate::Survived => &mut self.survived,
        } += 1;
    }
}
