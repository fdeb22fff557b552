//! A kernel booted with `ipv6.disable=1`, simulated: it has no IPv6 settings.

use std::path::Path;
use std::process::{Command, Output};

/// Calls svclab on such a machine.
fn svclab(arguments: &[&str]) -> Output {
    let script = "mount -t tmpfs none /proc/sys/net/ipv6 && exec \"$0\" \"$@\"";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_svclab")])
        .args(arguments)
        .current_dir(root)
        .output()
        .expect("unshare starts")
}

#[test]
fn a_scenario_with_ipv4_alone_runs() {
    let output = svclab(&["run", "scenarios/cluster-ip/other-node.yaml", "scenarios/host-network/endpoint.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_scenario_with_ipv6_says_what_it_lacks() {
    let output = svclab(&["run", "scenarios/ipv6/cluster-ip.yaml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the scenario has IPv6 addresses, but this kernel has no IPv6 support"), "{said}");
}

#[test]
fn the_doctor_finds_all_that_other_scenarios_need() {
    let output = svclab(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("not supported by this kernel: no scenario can use it"), "{said}");
}
