//! A user who may have few processes: what cannot be started is told, and nothing panics.

use std::process::Command;

use nix::unistd::geteuid;
use rstest::rstest;

/// Users that have no processes but those of this test, one for each case: so the limit is known.
const NOBODIES: u32 = 64_900;

/// Root is bound by no such limit, so root becomes somebody else, who may still read root's folders. Others have more
/// processes than the limit already, and can start none.
#[rstest]
fn what_cannot_be_started_is_told(#[values(1, 2, 3, 4, 6, 12)] limit: u32) {
    let mut arguments = Vec::new();
    if geteuid().is_root() {
        let user = format!("--reuid={}", NOBODIES + limit);
        let words =
            ["setpriv", &user, "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
        arguments.extend(words.map(str::to_owned));
    }
    arguments.extend(["prlimit".to_owned(), format!("--nproc={limit}:{limit}")]);
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).arg(env!("CARGO_BIN_EXE_svclab"));
    let output = command.args(["run", "--jobs", "4", "../scenarios/cluster-ip"]).output();
    let output = output.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(!said.contains("panicked"), "{said}");
    match output.status.code() {
        Some(0) if limit > 6 => {}
        Some(3) => assert!(said.contains("resource temporarily unavailable"), "{said}"),
        _ => panic!("{}: {said}", output.status),
    }
}
