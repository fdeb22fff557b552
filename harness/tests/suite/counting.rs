//! Counts that contradict the rules' counters, and balances that counters cannot confirm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rstest::rstest;

use crate::unwrapped;

/// Counters that contradict the delivered flows are an internal error, and the expectation is not judged. Here the program that reads them
/// shows ten times as many packets.
#[test]
fn counters_that_contradict_arrivals_are_an_internal_error() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-counters");
    fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("iptables-save");
    // The real program is found after this folder.
    let script = "#!/bin/sh\nPATH=${PATH#*:}\niptables-save \"$@\" | sed 's/^\\[\\([0-9]*\\):/[\\10:/'\n";
    fs::write(&program, script).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("an executable");
    let path = format!("{}:{}:/usr/sbin:/sbin", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut run = Command::new(env!("CARGO_BIN_EXE_svclab"));
    run.args(["run", "../scenarios/distribution/promised.yaml"]).env("NO_COLOR", "1").env("PATH", path);
    let output = run.output().expect("svclab starts");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{printed}{errors}");
    let printed = unwrapped(&printed);
    assert!(printed.contains("the rules' counters contradict what arrived: rules translated"), "{printed}");
    assert!(printed.contains("The expectation was not judged."), "{printed}");
}

/// If counters do not determine how many flows an endpoint got, or flows are translated again, the expectation is judged.
#[rstest]
#[case::by_a_rule_that_keeps_the_port("without-port")]
#[case::once_more_on_another_node("translated-again")]
fn flows_that_no_counter_determines_are_judged(#[case] name: &str) {
    let file = format!("tests/counting/{name}.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["run", &file]).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}
