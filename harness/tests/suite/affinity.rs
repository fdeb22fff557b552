//! Affinity in the kernel: clients stay with their endpoints until the timeout has passed.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;
use svclab::observation::ObservedOutcome;
use svclab::scenario::{self, Probe, Scenario, Step};
use svclab::testing::{self, Lab};
use svclab::{Backend, documents};

/// As short as possible, while a busy machine can still send two flows of each client within it.
const TIMEOUT: Duration = Duration::from_secs(3);
const CLIENTS: usize = 12;

/// Eight endpoints: all clients choose the same ones again by chance once in 8^12, or 7e10, runs.
fn scenario(mode: &str) -> Scenario {
    let seconds = TIMEOUT.as_secs();
    let mut text = format!(
        "name: affinity
cluster: {{podCIDR: 10.244.0.0/16, proxy: {{mode: {mode}, version: '1.31'}}}}
nodes: [{{name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}}]
pods: [{{name: client, node: worker, replicas: {CLIENTS}}}, {{name: web, node: worker, replicas: 8}}]
services:
- name: web
  sessionAffinity: ClientIP
  sessionAffinityConfig: {{clientIP: {{timeoutSeconds: {seconds}}}}}
  ports: [{{port: 80}}]
endpoints: [{{service: web, pods: [web]}}]
tests:
"
    );
    for client in 1..=CLIENTS {
        text += &format!(
            "- {{name: client {client}, probe: {{from: pod/client-{client}, to: 'service/web:80'}}, expect: {{delivered: pod/web}}}}\n"
        );
    }
    scenario::parse(&text, Path::new("affinity.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn probes(scenario: &Scenario) -> Vec<Probe> {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps);
    steps.filter_map(|step| if let Step::Probe(probe, _) = step { Some(*probe.clone()) } else { None }).collect()
}

/// One flow of every client: the endpoint of each.
fn endpoints(lab: &mut Lab<'_>, probes: &[Probe]) -> Vec<SocketAddr> {
    let flows = lab.send_all(probes).unwrap_or_else(|error| panic!("{error}"));
    let reached = flows.into_iter().map(|flow| match flow.outcome {
        ObservedOutcome::Delivered(delivery) => delivery.destination,
        other => panic!("{other:?}"),
    });
    reached.collect()
}

/// Two flows of every client, the second before the first is forgotten.
fn twice_in_time(lab: &mut Lab<'_>, probes: &[Probe]) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let begin = Instant::now();
        let both = (endpoints(lab, probes), endpoints(lab, probes));
        if begin.elapsed() < TIMEOUT {
            return both;
        }
    }
    panic!("{CLIENTS} flows took longer than {TIMEOUT:?}, {ATTEMPTS} times");
}

#[rstest]
fn clients_stay_until_the_timeout(#[values("iptables", "nftables")] mode: &str) {
    let scenario = scenario(mode);
    testing::privileged(|| {
        let documents = documents::generate(&scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
        let lived = testing::in_lab(&scenario, &documents, Backend::System, |lab| {
            let probes = probes(&scenario);
            assert_eq!(probes.len(), CLIENTS);
            let (first, second) = twice_in_time(lab, &probes);
            assert_eq!(first, second, "every client stays");
            // Time itself is tested: nothing shows whether the kernel's entry has expired.
            thread::sleep(TIMEOUT + Duration::from_millis(1_100));
            assert_ne!(second, endpoints(lab, &probes), "every client chooses anew");
        });
        lived.unwrap_or_else(|error| panic!("{error}"));
    });
}
