//! `svclab doctor` on this machine, and on one with restrictions.

use std::process::{Command, Output};

use serde_json::Value;

const SVCLAB: &str = env!("CARGO_BIN_EXE_svclab");

/// The checks of an examination: group, name, status, found, fix.
fn checks(output: &Output) -> Vec<[String; 5]> {
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON: {error}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let in_group = |group: Value| {
        let name = text(&group["name"]);
        rows(&group["checks"]).into_iter().map(move |row| {
            [name.clone(), text(&row["name"]), text(&row["status"]), text(&row["found"]), text(&row["fix"])]
        })
    };
    rows(&said["result"]["groups"]).into_iter().flat_map(in_group).collect()
}

#[test]
fn this_machine_has_all_that_a_run_needs() {
    let output = Command::new(SVCLAB).args(["doctor", "--format", "json"]).output().expect("svclab starts");
    let checks = checks(&output);
    let lacking: Vec<_> = checks.iter().filter(|[_, _, status, ..]| status == "lacking").collect();
    assert!(lacking.is_empty(), "install or allow what is lacking here: {lacking:#?}");
    assert_eq!(output.status.code(), Some(0));
    for group in ["privileges", "programs", "kernel", "rules", "limits"] {
        assert!(checks.iter().any(|[of, ..]| of == group), "{group} was examined");
    }
    for [_, name, status, _, fix] in &checks {
        assert_eq!(fix.is_empty(), status == "ok", "{name}: exactly what is not there has a fix");
    }
}

#[test]
fn without_privileges_it_says_how_to_get_them() {
    // Root of a user namespace that allows no nested ones, without any capability.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" doctor --format json";
    let unshared = ["--user", "--map-root-user", "sh", "-c", script, SVCLAB];
    let output = Command::new("unshare").args(unshared).output().expect("unshare starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let checks = checks(&output);
    let [_, name, status, found, fix] = &checks[0];
    assert_eq!((name.as_str(), status.as_str()), ("root or user namespace", "lacking"));
    assert!(found.contains("creating a user namespace"), "{found}");
    assert!(fix.contains("user.max_user_namespaces=15000"), "{fix}");
}
