//! Runs the fuzz targets of this crate: `EXECUTIONS SEED [TARGET...]`. See `ci/fuzz`.

use std::process::ExitCode;

fn main() -> ExitCode {
    svclab_rules_fuzz::campaign::main(&svclab_rules_fuzz::TARGETS)
}
