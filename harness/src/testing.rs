//! svclab in `cargo test`: scenarios and labs as test cases.
//!
//! ```no_run
//! use rstest::rstest;
//! use svclab::lab::Backend;
//! use svclab::testing;
//!
//! #[rstest]
//! #[case("scenarios/cluster-ip/same-node.yaml")]
//! #[case("scenarios/node-port/addresses.yaml")]
//! fn holds(#[case] scenario: &str) {
//!     testing::assert_holds(scenario, Backend::System);
//! }
//! # fn main() {}
//! ```
//!
//! A test that needs the kernel runs as root, or in a user namespace of its own. Where neither is available it fails with
//! the reason; it is never skipped.

use std::path::Path;
use std::process::Command;

use crate::lab::{self, Backend};
use crate::page::Settings;
use crate::report::{Status, console};
use crate::run::{Options, run};
use crate::scenario::{self, Scenario};

/// Set in the process that [`privileged`] starts, so that it starts no further one.
const INSIDE: &str = "SVCLAB_TEST_INSIDE";

/// Runs the body of a test with the privileges that a lab needs.
///
/// The kernel gives a user namespace only to a process with a single thread, which a test harness is not. So without root
/// this test alone is started again in a process that `unshare` made; the body runs there.
///
/// # Panics
///
/// Where the body does, and where neither root nor a user namespace is available.
pub fn privileged(body: impl FnOnce()) {
    if lab::is_privileged() {
        return body();
    }
    assert!(
        std::env::var_os(INSIDE).is_none(),
        "a user namespace was made, but it gives no privileges: `svclab doctor` reports what is missing"
    );
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let program =
        std::env::current_exe().unwrap_or_else(|error| panic!("the test's own program is not known: {error}"));
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(program)
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status();
    match status {
        Ok(status) => assert!(status.success(), "{name} failed in a user namespace: its output is above"),
        Err(error) => panic!("{name} needs root, or the program `unshare` of util-linux: {error}"),
    }
}

/// Loads a scenario, runs it, and panics with a report where an expectation does not hold.
///
/// # Panics
///
/// With every error of the scenario, with what the environment lacks, or with every difference.
pub fn assert_holds(path: impl AsRef<Path>, backend: Backend) {
    let path = path.as_ref();
    let scenario = scenario::load(path).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    privileged(|| assert_scenario_holds(&scenario, backend));
}

/// Runs a scenario in a process that is privileged, with a backend of iptables; panics as [`assert_holds`].
///
/// # Panics
///
/// As [`assert_holds`].
pub fn assert_scenario_holds(scenario: &Scenario, backend: Backend) {
    let options = Options { backend, ..Options::default() };
    let report = run(std::slice::from_ref(scenario), &options, &|_| {});
    let text = console::render(&report, Settings::default());
    assert!(report.status() == Status::Ok, "{text}");
    assert_eq!(report.counts().ok, scenario.tests.len(), "every test is carried out:\n{text}");
}
