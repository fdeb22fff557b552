//! A probe that fails: what promise, prediction and kernel say of it, and which of them is wrong.
#![allow(clippy::expect_used, reason = "a test fails where something is missing")]

use std::path::Path;

use rstest::rstest;
use svclab::report::{Account, ProbeReport, RunReport, console};
use svclab::run::{Options, run};
use svclab::scenario::{self, OutcomeExpectation, Scenario, Step};
use svclab::testing;

/// The lines of a screen, on which a failure is told.
const SCREEN: usize = 40;

fn load(file: &str) -> Scenario {
    scenario::load(&Path::new("../scenarios").join(file)).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Turns the expectation of a test's probe round, so that it fails.
fn spoil(scenario: &mut Scenario, test: &str) {
    let test = scenario.tests.iter_mut().find(|one| one.name == test).expect("a test of this name");
    for step in &mut test.steps {
        if let Step::Probe(_, expectation) = step {
            let is_dropped = expectation.outcome == Some(OutcomeExpectation::Dropped);
            let other =
                if is_dropped { OutcomeExpectation::Delivered(Vec::new()) } else { OutcomeExpectation::Dropped };
            (expectation.outcome, expectation.source, expectation.reply) = (Some(other), None, None);
        }
    }
}

fn failed(report: &RunReport) -> (&ProbeReport, &Account) {
    let probes = report.scenarios.iter().flat_map(|scenario| &scenario.tests).flat_map(|test| &test.probes);
    let probe = probes.into_iter().find(|probe| !probe.verdict.held);
    let probe = probe.unwrap_or_else(|| panic!("{}", console::render(report, console::Options::default())));
    (probe, probe.account.as_ref().expect("an account of a probe that failed"))
}

#[rstest]
#[case::expectation(
    "cluster-ip/same-node.yaml",
    "",
    "Promise, prediction and kernel agree: the expectation differs.",
    "delivered to pod/",
    "-j DNAT"
)]
#[case::policy(
    "foreign-rules/forward-policy-drop.yaml",
    "from outside over another node",
    "The rules do not do what is promised",
    "dropped on node/worker2: by the policy of FORWARD in table filter",
    "-j MASQUERADE"
)]
#[case::network("sysctls/ip-forward.yaml", "", "The network, not the rules", "the machine does not forward", "-j DNAT")]
#[case::nftables(
    "nftables/cluster-ip.yaml",
    "",
    "Promise, prediction and kernel agree: the expectation differs.",
    "delivered to pod/",
    "vmap @service-ips"
)]
#[case::nftables_node_port(
    "nftables/node-port.yaml",
    "",
    "Promise, prediction and kernel agree: the expectation differs.",
    "delivered to pod/",
    "masquerade fully-random"
)]
fn a_failure_says_who_is_wrong(
    #[case] file: &str,
    #[case] test: &str,
    #[case] meaning: &str,
    #[case] prediction: &str,
    #[case] rule: &str,
) {
    testing::privileged(|| {
        let mut scenario = load(file);
        let name = if test.is_empty() { scenario.tests[0].name.clone() } else { test.to_owned() };
        spoil(&mut scenario, &name);
        let options = Options { filter: Some(name), ..Options::default() };
        let report = run(std::slice::from_ref(&scenario), &options, &|_| {});
        let (probe, account) = failed(&report);
        assert!(account.meaning.starts_with(meaning), "{account:?}");
        assert!(account.prediction.iter().any(|branch| branch.contains(prediction)), "{account:?}");
        assert!(probe.rules.iter().flat_map(|excerpt| &excerpt.lines).any(|line| line.contains(rule)), "{probe:?}");
        let kernel = account.kernel.as_ref().expect("the kernel was traced");
        assert!(kernel.alike > 0 && kernel.difference.is_none(), "{account:?}");
        assert_eq!(account.untraced, None);
        assert!(probe.look.as_ref().is_some_and(|look| look.starts_with("svclab explain --from=")), "{probe:?}");
        let page = console::render(&report, console::Options::default());
        assert!(page.lines().count() <= SCREEN, "{page}");
        assert!(page.find(meaning) < page.find("should    "), "what it means is told first: {page}");
    });
}
