//! The `svclab` command.

mod cli;

use std::process::ExitCode;

/// Runs before `main`: once the standard library has started, a closed standard output (`>&-`) cannot be distinguished
/// from `/dev/null`.
#[ctor::ctor(unsafe)]
fn check_standard_output() {
    cli::check_standard_output();
}

fn main() -> ExitCode {
    cli::main()
}
