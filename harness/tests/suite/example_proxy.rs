//! Scenarios in labs whose rules the proxy of `examples/` writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

/// `cargo test` builds examples beside the command.
fn proxy() -> PathBuf {
    let file = Path::new(env!("CARGO_BIN_EXE_svclab")).with_file_name("examples").join("proxy");
    assert!(file.exists(), "{} is missing: run `cargo build -p svclab --example proxy`", file.display());
    file
}

#[rstest]
#[case::nftables("nftables")]
#[case::iptables("cluster-ip")]
#[case::changes("updates")]
fn scenarios_hold_with_rules_of_another_client(#[case] folder: &str) {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(folder);
    let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = svclab.arg("run").arg("--kube-proxy").arg(proxy()).arg(scenarios).output().expect("svclab starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
}
