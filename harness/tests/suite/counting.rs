//! Many flows, sent from several processors at the same time: each is counted once, and the rules' counters agree.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rstest::rstest;
use svclab::lab::{Backend, Lab, with_lab};
use svclab::observation::{Observation, ObservedOutcome, Tally};
use svclab::probe::Prober;
use svclab::scenario::{self, Flows, Probe, Scenario, Step};
use svclab::{documents, testing, topology};

/// Enough for several windows on each of several processors.
const FLOWS: u64 = 60_000;

/// A service with three endpoints on two nodes, in both families, and one probe of it.
fn scenario(from: &str, family: &str, protocol: &str) -> Scenario {
    read(&text(from, family, protocol))
}

fn text(from: &str, family: &str, protocol: &str) -> String {
    format!(
        "name: counting
cluster: {{podCIDR: [10.244.0.0/16, 'fd00:10:244::/56']}}
nodes:
- {{name: worker, ip: [172.18.0.2, 'fd00:18::2'], podCIDR: [10.244.1.0/24, 'fd00:10:244:1::/64']}}
- {{name: worker2, ip: [172.18.0.3, 'fd00:18::3'], podCIDR: [10.244.2.0/24, 'fd00:10:244:2::/64']}}
pods:
- {{name: client, node: worker, ip: [10.244.1.9, 'fd00:10:244:1::9']}}
- {{name: web, nodes: [worker, worker2], replicas: 3}}
services:
- {{name: web, ipFamilies: [{family}], ports: [{{port: 80, protocol: {protocol}}}]}}
endpoints:
- {{service: web, pods: [web]}}
tests:
- {{name: one, probe: {{from: {from}, to: 'service/web:80', protocol: {protocol}}}, expect: {{delivered: pod/web}}}}
"
    )
}

fn read(text: &str) -> Scenario {
    scenario::parse(text, Path::new("counting.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn probe(scenario: &Scenario, flows: u64) -> Probe {
    let Some(Step::Probe(probe, _)) = scenario.tests.first().and_then(|test| test.steps.first()) else {
        panic!("the scenario begins with a probe");
    };
    Probe { flows: Flows::Exactly(flows), ..*probe.clone() }
}

fn in_a_lab<T: Send>(scenario: &Scenario, work: impl FnOnce(&mut Lab) -> T + Send) -> T {
    let documents = documents::generate(scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
    let used = with_lab(&topology::plan(scenario), &documents, Backend::System, work);
    used.unwrap_or_else(|error| panic!("{error}"))
}

fn count(prober: &mut Prober<'_>, probe: &Probe, flows: u64) -> Tally {
    match prober.send(probe, flows) {
        Ok(Observation::Tally(tally)) => tally,
        other => panic!("flows are counted: {other:?}"),
    }
}

#[rstest]
#[case::a_pod("pod/client", "IPv4", "TCP")]
#[case::a_pod_by_ipv6("pod/client", "IPv6", "UDP")]
#[case::a_process("node/worker", "IPv4", "UDP")]
fn receivers_and_rules_count_the_same(#[case] from: &str, #[case] family: &str, #[case] protocol: &str) {
    let scenario = scenario(from, family, protocol);
    testing::privileged(|| {
        in_a_lab(&scenario, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster).expect("sockets");
            let probe = probe(&scenario, FLOWS);
            let tally = prober.cross_checked(&probe, |prober| prober.count(&probe, FLOWS)).expect("a count");
            assert_eq!((tally.sent, tally.lost, tally.doubled, tally.unattributed), (FLOWS, 0, 0, 0), "{tally:?}");
            assert_eq!(tally.delivered.len(), 3);
            assert_eq!(tally.delivered.values().sum::<u64>(), FLOWS);
            assert_eq!(tally.sources.values().sum::<u64>(), FLOWS);
            let translated = tally.translated.as_ref().expect("counters").by_destination();
            assert_eq!(translated.values().sum::<u64>(), FLOWS + tally.repeated);
            assert!(tally.confirmation().is_some(), "{:?}", tally.disagreements());
        });
    });
}

/// A connection table of a node never has more flows than its default limit allows; when counting has ended it has none.
#[test]
fn single_flows_are_followed_after_many_were_counted() {
    let scenario = scenario("pod/client", "IPv4", "UDP");
    testing::privileged(|| {
        in_a_lab(&scenario, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster).expect("sockets");
            for flows in [40_000, 50] {
                let tally = count(&mut prober, &probe(&scenario, flows), flows);
                assert_eq!(tally.delivered.values().sum::<u64>(), flows, "{tally:?}");
                let Observation::Flow(flow) = prober.send(&probe(&scenario, 1), 1).expect("a flow") else {
                    panic!("one flow is followed");
                };
                assert!(matches!(flow.outcome, ObservedOutcome::Delivered(_)), "{flow:?}");
                assert!(flow.path.len() > 2, "every tap sees again: {flow:?}");
            }
        });
    });
}

/// What a node drops because two connections would be the same is sent again, but only once: where rules leave too few ports,
/// flows are lost.
#[test]
fn flows_that_find_no_port_are_lost_although_they_are_sent_again() {
    const PORTS: u64 = 100;
    let rules = "rules:
  worker:
    install: before
    text: |
      *nat
      -A POSTROUTING -p udp -s 10.244.1.9 -j MASQUERADE --to-ports 40000-40099
      COMMIT
";
    let scenario = read(&format!("{}{rules}", text("pod/client", "IPv4", "UDP")));
    testing::privileged(|| {
        in_a_lab(&scenario, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster).expect("sockets");
            let tally = count(&mut prober, &probe(&scenario, 1_000), 1_000);
            // Each of the three endpoints can be reached from so many ports at the same time.
            assert_eq!(tally.delivered.values().sum::<u64>(), 3 * PORTS, "{tally:?}");
            assert_eq!((tally.lost, tally.repeated), (1_000 - 3 * PORTS, 1_000 - 3 * PORTS), "{tally:?}");
        });
    });
}

/// Counters that contradict what arrived are an error of svclab's own, and the expectation is not judged. Here the program
/// that reads them shows ten times as many packets.
#[test]
fn counters_that_contradict_arrivals_are_an_internal_error() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong-counters");
    fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("iptables-save");
    // The real one is found behind this folder.
    let script = "#!/bin/sh\nPATH=${PATH#*:}\niptables-save \"$@\" | sed 's/^\\[\\([0-9]*\\):/[\\10:/'\n";
    fs::write(&program, script).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("an executable");
    let path = format!("{}:{}:/usr/sbin:/sbin", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut run = Command::new(env!("CARGO_BIN_EXE_svclab"));
    run.args(["run", "../scenarios/distribution/promised.yaml"]).env("NO_COLOR", "1").env("PATH", path);
    let output = run.output().expect("svclab starts");
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{printed}{errors}");
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("the rules' counters contradict what arrived: rules translated"), "{printed}");
    assert!(printed.contains("The expectation was not judged."), "{printed}");
}

/// Where counters do not say how many flows an endpoint got, or flows are translated once more, the expectation is judged.
#[rstest]
#[case::by_a_rule_that_keeps_the_port("without-port")]
#[case::once_more_on_another_node("translated-again")]
fn flows_that_counters_do_not_tell_of_are_judged(#[case] name: &str) {
    let file = format!("tests/counting/{name}.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["run", &file]).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}
