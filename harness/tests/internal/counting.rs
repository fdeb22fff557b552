//! Many flows, sent from several CPUs in parallel: each is counted once, and the rules' counters agree.

use std::io;
use std::path::Path;

use crate::lab::{Backend, Lab, with_lab};
use crate::observation::{Observation, ObservedOutcome, Tally};
use crate::probe::Prober;
use crate::scenario::{self, Flows, Probe, Scenario, Step};
use crate::{documents, testing, topology};
use rstest::rstest;

/// Enough for several windows on each of several CPUs.
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
        .unwrap_or_else(|errors| panic!("{errors}"))
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
            assert_eq!((tally.sent, tally.lost, tally.duplicated, tally.unattributed), (FLOWS, 0, 0, 0), "{tally:?}");
            assert_eq!(tally.delivered.len(), 3);
            assert_eq!(tally.delivered.values().sum::<u64>(), FLOWS);
            assert_eq!(tally.sources.values().sum::<u64>(), FLOWS);
            let translated = tally.translated.as_ref().expect("counters").by_destination();
            assert_eq!(translated.values().sum::<u64>(), FLOWS + tally.resent);
            assert!(tally.confirmation().is_some(), "{:?}", tally.disagreements());
        });
    });
}

/// A node's conntrack table never has more flows than its default limit allows, and none after counting.
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

/// A flow that a node drops because of a collision is sent again, but only once: if rules leave too few ports, flows are lost.
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
            // Each of the three endpoints can be reached from this number of ports at the same time.
            assert_eq!(tally.delivered.values().sum::<u64>(), 3 * PORTS, "{tally:?}");
            assert_eq!((tally.lost, tally.resent), (1_000 - 3 * PORTS, 1_000 - 3 * PORTS), "{tally:?}");
        });
    });
}

/// Rules count a dropped packet of a process once: if it were sent again, they would count more flows than were sent.
#[rstest]
fn a_flow_that_a_rule_of_output_drops_is_sent_once(#[values("IPv4", "IPv6")] family: &str) {
    const EVERY: u64 = 4;
    let family_of_rules = family.to_lowercase();
    let rules = format!(
        "rules:
  worker:
    install: before
    family: {family_of_rules}
    text: |
      *filter
      -A OUTPUT -p udp -m statistic --mode nth --every {EVERY} --packet 0 -j DROP
      COMMIT
"
    );
    let scenario = read(&format!("{}{rules}", text("node/worker", family, "UDP")));
    testing::privileged(|| {
        in_a_lab(&scenario, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster).expect("sockets");
            let probe = probe(&scenario, FLOWS);
            let tally = prober.cross_checked(&probe, |prober| prober.count(&probe, FLOWS)).expect("a count");
            assert_eq!((tally.lost, tally.resent), (FLOWS / EVERY, 0), "{tally:?}");
            let translated = tally.translated.as_ref().expect("counters").by_destination();
            assert_eq!(translated.values().sum::<u64>(), FLOWS);
        });
    });
}
