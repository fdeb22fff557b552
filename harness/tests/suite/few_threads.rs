//! A low process limit: a thread or process that cannot be started is an error of the environment, and nothing panics.

use std::process::Command;

use nix::unistd::geteuid;
use rstest::rstest;
use serde_json::Value;

/// Users whose only processes are those of this test, one for each case, so that the limit is known.
const NOBODIES: u32 = 64_900;

/// The limit does not apply to root, so root becomes another user, which may still read root's folders. Other users
/// already have more processes than the limit, and can start none.
#[rstest]
fn what_cannot_be_started_is_an_error_of_the_environment(#[values(1, 2, 3, 4, 6, 12)] limit: u32) {
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
    let output = command.args(["run", "--jobs", "4", "--report", "json=-", "../scenarios/cluster-ip"]).output();
    let output = output.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    if output.stdout.is_empty() {
        // Not even the thread that waits for signals could be started, so there was no run to report.
        assert_eq!(output.status.code(), Some(3), "{said}");
        return;
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let causes = causes(&report);
    match output.status.code() {
        Some(0) if limit > 6 => assert_eq!(causes, Vec::<&str>::new()),
        Some(3) => assert!(!causes.is_empty() && causes.iter().all(|cause| *cause == "environment"), "{causes:?}"),
        _ => panic!("{}: {said}{report:#}", output.status),
    }
}

/// The cause of each error in a report.
fn causes(report: &Value) -> Vec<&str> {
    match report {
        Value::Object(fields) => {
            let own = fields.get("cause").and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(causes)).collect()
        }
        Value::Array(items) => items.iter().flat_map(causes).collect(),
        _ => Vec::new(),
    }
}
