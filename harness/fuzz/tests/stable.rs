//! The targets on any toolchain: corpus, regressions, and as many mutations as a test has time for.

use svclab_fuzz::{Campaign, TARGETS};

/// Executions of each target: some seconds without optimisation. `ci/fuzz` has as many as there is time for.
const EXECUTIONS: u64 = 60;

#[test]
fn properties_hold_of_mutated_inputs() {
    for target in &TARGETS {
        let report = Campaign { seed: 1, executions: EXECUTIONS }.run(target);
        let failure = report.failure.as_deref().map(String::from_utf8_lossy);
        assert_eq!(failure, None, "target {}", target.name);
        assert_eq!(report.executions, EXECUTIONS, "target {}", target.name);
    }
}
