//! Links that lose and delay packets, for which the kernel needs `sch_netem`.

use std::path::Path;
use std::process::{Command, Output};

fn svclab(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments).current_dir(root).output().expect("svclab starts")
}

/// With the module all tests pass, and without it each reports what is missing: none passes, and none fails for another reason.
#[test]
fn lossy_links_work_or_name_the_module_that_is_missing() {
    let doctor = svclab(&["doctor"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let line = doctor.lines().find(|line| line.contains("sch_netem")).expect("doctor tries it");
    let run = svclab(&["run", "--color", "never", "scenarios/netem"]);
    let report = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    if line.contains("links that lose and delay packets") {
        assert_eq!(run.status.code(), Some(0), "{report}");
    } else {
        assert_eq!(run.status.code(), Some(3), "{report}");
        assert!(report.contains("this kernel has no sch_netem"), "{report}");
        assert!(report.contains("sudo modprobe sch_netem"), "{report}");
    }
}
