//! Scenarios with errors, each with the message that a user sees.
//!
//! The messages are next to the scenarios. After an intended change, update them with
//! `INSTA_UPDATE=always cargo test -p svclab --test suite invalid` and read the difference.

use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

#[rstest]
fn is_rejected(#[files("../scenarios/invalid/*.yaml")] scenario: PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let name = scenario.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let output = Command::new(env!("CARGO_BIN_EXE_svclab"))
        .args(["check", "--color", "never", &format!("scenarios/invalid/{name}.yaml")])
        .current_dir(root)
        .output()
        .expect("svclab starts");
    assert_eq!(output.status.code(), Some(2), "a mistake ends with exit code 2");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "errors go to standard error");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root.join("scenarios/invalid/messages"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, String::from_utf8_lossy(&output.stderr)));
}
