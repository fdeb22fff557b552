//! Runs the targets on any toolchain: corpus, regressions, and as many mutations as a test has time for.

use std::path::Path;

use svclab_fuzz::{TARGETS, campaign};

/// The number of executions of each target, some seconds without optimisation. `ci/fuzz` runs more.
const EXECUTIONS: u64 = 60;

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    campaign::assert_programs(&TARGETS, Path::new(env!("CARGO_MANIFEST_DIR")), "svclab_fuzz");
}

#[test]
fn properties_hold_of_mutated_inputs() {
    campaign::assert_all(&TARGETS, EXECUTIONS);
}
