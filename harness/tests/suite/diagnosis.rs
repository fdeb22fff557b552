//! A failing probe: promise, prediction and kernel, and which of them is wrong.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rstest::rstest;
use svclab::Backend;
use svclab::page::Settings;
use svclab::report::{Diagnosis, ProbeReport, RunReport, console};
use svclab::run::{Options, Selection, run};
use svclab::scenario::{self, DropPlace, ExpectedOutcome, Scenario, Step};
use svclab::testing;

/// The lines of a screen, on which a failure fits.
const SCREEN: usize = 40;

fn load(file: &str) -> Scenario {
    scenario::load(&Path::new("../scenarios").join(file)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Inverts the expectation of a test's probe, so that it fails.
fn spoil(scenario: &mut Scenario, test: &str) {
    let test = scenario.tests.iter_mut().find(|one| one.name == test).expect("a test of this name");
    for step in &mut test.steps {
        if let Step::Probe(_, expectation) = step {
            let is_dropped = matches!(expectation.outcome, Some(ExpectedOutcome::Dropped(_)));
            let dropped = ExpectedOutcome::Dropped(DropPlace::InCluster);
            let other = if is_dropped { ExpectedOutcome::Delivered(Vec::new()) } else { dropped };
            (expectation.outcome, expectation.source, expectation.reply) = (Some(other), None, None);
        }
    }
}

fn failed(report: &RunReport) -> (&ProbeReport, &Diagnosis) {
    let probes = report.scenarios.iter().flat_map(|scenario| &scenario.tests).flat_map(|test| &test.probes);
    let probe = probes.into_iter().find(|probe| !probe.judgment.held);
    let probe = probe.unwrap_or_else(|| panic!("{}", console::render(report, Settings::default())));
    (probe, probe.diagnosis.as_ref().expect("a diagnosis of a probe that failed"))
}

const NETWORK: &str = "The network is the cause: with default settings, and working bridges and links, these rules would keep the \
    promise. (dropped on node/worker: forwarding is disabled; cause: net.ipv4.ip_forward = 0 on node/worker)";

#[rstest]
#[case::expectation(
    "cluster-ip/same-node.yaml",
    "",
    "Promise, prediction and kernel agree: the expectation differs.",
    "delivered to pod/",
    "-j DNAT"
)]
#[case::policy(
    "bugs/39823-forward-policy-drop.yaml",
    "from outside over another node",
    "The rules break the promise",
    "dropped on node/worker2: by the policy of FORWARD in table filter",
    "filter: policy DROP of FORWARD"
)]
#[case::network("sysctls/ip-forward.yaml", "", NETWORK, "forwarding is disabled", "-j DNAT")]
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
        let options =
            Options { selection: Selection { filter: Some(name), ..Selection::default() }, ..Options::default() };
        let report = run(std::slice::from_ref(&scenario), &options, &|_| {});
        let (probe, diagnosis) = failed(&report);
        assert!(diagnosis.meaning.starts_with(meaning), "{diagnosis:?}");
        assert!(diagnosis.prediction.iter().any(|branch| branch.contains(prediction)), "{diagnosis:?}");
        // Branches that differ in their rules alone are one outcome.
        let outcomes: Vec<&str> =
            diagnosis.prediction.iter().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
        assert_eq!(BTreeSet::from_iter(&outcomes).len(), outcomes.len(), "{diagnosis:?}");
        assert!(probe.rules.iter().flat_map(|excerpt| &excerpt.lines).any(|line| line.contains(rule)), "{probe:?}");
        let kernel = diagnosis.kernel.as_ref().expect("the kernel was traced");
        assert!(kernel.as_predicted > 0 && kernel.difference.is_none(), "{diagnosis:?}");
        assert_eq!(diagnosis.untraced, None);
        assert!(
            probe.explain_command.as_ref().is_some_and(|command| command.starts_with("svclab explain --from=")),
            "{probe:?}"
        );
        let page = console::render(&report, Settings::default());
        assert!(page.lines().count() <= SCREEN, "{page}");
        assert!(page.find(meaning) < page.find("promised   "), "the meaning comes first: {page}");
    });
}

/// A client with affinity whose probes all fail, from a port of its own choice and from any. State of one probe in rules and connections
/// does not affect the next one's diagnosis.
#[rstest]
#[case::iptables_nft("iptables", Backend::Nft)]
#[case::iptables_legacy("iptables", Backend::Legacy)]
#[case::nftables("nftables", Backend::System)]
fn an_account_is_of_a_first_flow(#[case] mode: &str, #[case] backend: Backend) {
    let scenario = parsed(&format!(
        "name: affinity
cluster: {{podCIDR: 10.244.0.0/16, proxy: {{mode: {mode}, version: '1.31'}}}}
nodes: [{{name: worker, ip: 172.18.0.2}}]
pods: [{{name: client, node: worker}}, {{name: web, node: worker, replicas: 3}}]
services: [{{name: web, type: NodePort, sessionAffinity: ClientIP, ports: [{{port: 80, nodePort: 30080}}]}}]
endpoints: [{{service: web, pods: [web]}}]
tests:
- name: none of them is dropped
  steps:
  - {{probe: {{from: pod/client, to: 'service/web:80', sourcePort: 40000}}, expect: {{dropped: true}}}}
  - {{probe: {{from: pod/client, to: 'service/web:80', sourcePort: 40000}}, expect: {{dropped: true}}}}
  - {{probe: {{from: pod/client, to: 'service/web:80'}}, expect: {{dropped: true}}}}
  - {{probe: {{from: pod/client, to: 'nodeport/web:80@worker'}}, expect: {{dropped: true}}}}
"
    ));
    testing::privileged(|| {
        let report = run(&[scenario], &Options { backend, ..Options::default() }, &|_| {});
        let diagnoses = diagnoses(&report);
        assert_eq!(diagnoses.len(), 4);
        for diagnosis in diagnoses {
            assert_eq!(diagnosis.meaning, "Promise, prediction and kernel agree: the expectation differs.");
            let kernel = diagnosis.kernel.as_ref().expect("the kernel was traced");
            assert!(kernel.as_predicted > 0 && kernel.difference.is_none(), "{diagnosis:?}");
        }
    });
}

/// A UDP connection continues over a node that the policy now excludes. If that fails a test, the report says so; and the diagnosis of a
/// failure flushes nothing while tests are running.
#[rstest]
fn what_earlier_flows_left_behind_is_reported(#[values("iptables", "nftables")] mode: &str) {
    let probe = "probe: {from: host/outside, to: 'nodeport/dns:53@worker', sourcePort: 40000}";
    let scenario = parsed(&format!(
        "name: a policy that changes
cluster: {{podCIDR: 10.244.0.0/16, proxy: {{mode: {mode}, version: '1.31'}}}}
nodes: [{{name: worker, ip: 172.18.0.2}}, {{name: worker2, ip: 172.18.0.3}}]
pods: [{{name: dns, node: worker2}}]
services: [{{name: dns, type: NodePort, ports: [{{port: 53, protocol: UDP, nodePort: 30053}}]}}]
endpoints: [{{service: dns, pods: [dns]}}]
hosts: [{{name: outside, ip: 203.0.113.10}}]
tests:
- name: an old connection
  steps:
  - {{{probe}, expect: {{delivered: pod/dns}}}}
  - apply: {{services: [{{name: dns, externalTrafficPolicy: Local}}]}}
  - {{{probe}, expect: {{dropped: true}}}}
  - {{{probe}, expect: {{delivered: pod/dns}}}}
"
    ));
    testing::privileged(|| {
        let report = run(&[scenario], &Options::default(), &|_| {});
        let probes = &report.scenarios[0].tests[0].probes;
        let held: Vec<bool> = probes.iter().map(|probe| probe.judgment.held).collect();
        assert_eq!(held, [true, false, true], "{}", console::render(&report, Settings::default()));
        let diagnosis = probes[1].diagnosis.as_ref().expect("a diagnosis of a probe that failed");
        let words = "State of earlier flows on nodes (connections, client lists) changed its path. Sent again without it: \
                     Promise, prediction and kernel agree.";
        assert_eq!((diagnosis.meaning.as_str(), diagnosis.observation.as_str()), (words, "dropped on node/worker"));
    });
}

fn diagnoses(report: &RunReport) -> Vec<&Diagnosis> {
    let probes = report.scenarios.iter().flat_map(|scenario| &scenario.tests).flat_map(|test| &test.probes);
    probes.filter_map(|probe| probe.diagnosis.as_ref()).collect()
}

fn parsed(text: &str) -> Scenario {
    scenario::parse(text, Path::new("diagnosis.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|errors| panic!("{errors}"))
}
