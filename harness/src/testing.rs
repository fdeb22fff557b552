//! svclab in `cargo test`: scenarios and labs as test cases.
//!
//! ```no_run
//! use rstest::rstest;
//! use svclab::Backend;
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

use crate::documents::Document;
use crate::lab::{self, Backend, with_lab};
use crate::observation::{FlowObservation, Observation, Tally};
use crate::page::Settings;
use crate::probe::{ProbeError, Prober};
use crate::report::{Status, Trouble, console};
use crate::run::{Options, RunError, run};
use crate::scenario::{self, Probe, Scenario};
use crate::topology;

/// The environment variable that is set in the process that [`privileged`] starts, so that it does not start another one.
const INSIDE: &str = "SVCLAB_TEST_INSIDE";

/// Runs the body of a test with the privileges that a lab needs.
///
/// The kernel lets only a single-threaded process create a user namespace, which a test harness is not. So without root, this test alone is
/// started again in a process of `unshare`, and the body runs there.
///
/// # Panics
///
/// If the body panics, or neither root nor a user namespace is available.
pub fn privileged(body: impl FnOnce()) {
    if lab::is_privileged() {
        return body();
    }
    assert!(
        std::env::var_os(INSIDE).is_none(),
        "a user namespace was created, but it gives no privileges: `svclab doctor` reports what is missing"
    );
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let program = std::env::current_exe()
        .unwrap_or_else(|error| panic!("the path of the test's own program is unknown: {error}"));
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

/// Loads a scenario, runs it, and panics with a report if an expectation does not hold.
///
/// # Panics
///
/// With all errors of the scenario, what the environment lacks, or all differences.
pub fn assert_holds(path: impl AsRef<Path>, backend: Backend) {
    let path = path.as_ref();
    let scenario = scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
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

/// The lab of a scenario, in which probes are sent: see [`in_lab`].
pub struct Lab<'lab>(Prober<'lab>);

impl Lab<'_> {
    /// Sends this many flows of a probe: a single one is followed on its path, more are counted.
    ///
    /// # Errors
    ///
    /// If the lab cannot send the probe or determine its outcome.
    pub fn send(&mut self, probe: &Probe, flows: u64) -> Result<Observation, Trouble> {
        self.0.send(probe, flows).map_err(trouble)
    }

    /// Sends one flow of each probe, all in flight at the same time, and follows them; the results are in the order of the probes.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_all(&mut self, probes: &[Probe]) -> Result<Vec<FlowObservation>, Trouble> {
        self.0.send_all(probes).map_err(trouble)
    }

    /// Counts flows of a probe until there are `most`, or until the counts so far are enough.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn count_until(
        &mut self,
        probe: &Probe,
        most: u64,
        is_enough: impl FnMut(&Tally) -> bool,
    ) -> Result<Tally, Trouble> {
        self.0.count_until(probe, most, is_enough).map_err(trouble)
    }

    /// Sends flows as counting does, but with all taps closed and without counting, to measure the speed of the kernel alone.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_uncounted(&mut self, probe: &Probe, flows: u64) -> Result<(), Trouble> {
        self.0.send_uncounted(probe, flows).map_err(trouble)
    }
}

fn trouble(error: ProbeError) -> Trouble {
    RunError::Prober(error).into_trouble()
}

/// Builds the lab of a scenario's first state with these rules, as [`documents::generate`](crate::documents::generate) makes them,
/// and lets a function send probes in it. The calling process must be [`privileged`].
///
/// # Errors
///
/// If the environment lacks something, or the kernel rejects something, while the lab is built.
pub fn in_lab<T: Send>(
    scenario: &Scenario,
    documents: &[Document],
    backend: Backend,
    body: impl FnOnce(&mut Lab<'_>) -> T + Send,
) -> Result<T, Trouble> {
    let used = with_lab(&topology::plan(scenario), documents, backend, |lab| {
        Prober::new(lab, &scenario.cluster).map(|prober| body(&mut Lab(prober)))
    });
    used.map_err(RunError::Lab).and_then(|used| used.map_err(RunError::Prober)).map_err(RunError::into_trouble)
}

/// Gives this process the privileges that labs need, in a user namespace unless it is root. It must have a single thread.
///
/// # Errors
///
/// If the system does not allow it.
pub fn become_privileged() -> Result<(), Trouble> {
    lab::become_privileged().map_err(|error| RunError::Lab(error).into_trouble())
}
