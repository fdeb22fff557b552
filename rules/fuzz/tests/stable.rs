//! Runs the fuzz targets on any toolchain: corpus, regressions, and as many mutations as a test has time for.

use std::path::Path;

use svclab_rules_fuzz::{Campaign, Length, TARGETS, campaign};

/// The number of executions of each target, which take some seconds without optimisation. `ci/fuzz` runs for a given time.
const EXECUTIONS: u64 = 400;

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    campaign::assert_programs(&TARGETS, Path::new(env!("CARGO_MANIFEST_DIR")), "svclab_rules_fuzz");
}

#[test]
fn properties_hold_of_mutated_inputs() {
    campaign::assert_all(&TARGETS, EXECUTIONS);
}

/// A failing target is detected, and its failing input is found.
#[test]
fn a_failure_is_found_and_made_small() {
    let corpus = || vec![b"one two three\nfour five\n".to_vec()];
    let check = |data: &[u8]| assert!(!data.windows(4).any(|four| four == b"four"), "found");
    let target = svclab_rules_fuzz::Target { name: "planted", corpus, check };
    let report = Campaign { seed: 1, length: Length::Executions(100) }.run(&target);
    assert_eq!(report.failure.as_deref(), Some(b"four".as_slice()));
}
