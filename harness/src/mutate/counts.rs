//! Numbers of mutants by result.

use schemars::JsonSchema;
use serde::Serialize;

use super::mutant::{Mutant, MutantStatus};

/// Numbers of mutants by result.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// All mutants.
    pub(super) mutants: usize,
    /// Mutants for which no flow differs.
    pub(super) equivalent: usize,
    /// Mutants for which a test of the scenario fails.
    pub(super) killed_by_tests: usize,
    /// Mutants for which `verify` fails.
    pub(super) killed_by_verify: usize,
    /// Mutants for which `verify` fails, and no test does.
    pub(super) missed_by_tests: usize,
    /// Mutants for which `verify` fails only without the mutation.
    pub(super) failing_before: usize,
    /// Mutants for which flows differ only in what the Service API does not specify.
    pub(super) unspecified: usize,
    /// Mutants for which flows differ, and `verify` passes.
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
        *match mutant.result {
            MutantStatus::Equivalent => &mut self.equivalent,
            MutantStatus::Killed => &mut self.killed_by_verify,
            MutantStatus::FailingBefore => &mut self.failing_before,
            MutantStatus::Unspecified => &mut self.unspecified,
            MutantStatus::Survived => &mut self.survived,
        } += 1;
    }
}
