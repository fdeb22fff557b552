//! Reports for tests: a run that passes, one that fails, and their parts.

use std::net::SocketAddr;
use std::time::Duration;

use svclab_rules::cluster::{ObjectName, Protocol};

use super::*;
use crate::judge::{Context, expected_parts, judge};
use crate::observation::{Delivery, Direction, FlowObservation, Observation, ObservedOutcome, Sighting, Tally};
use crate::scenario::{
    Balance, Destination, Expectation, ExpectedOutcome, Flows, Probe, RejectKind, ReplyExpectation, Shape,
    SourceExpectation, Span, Target, Vantage,
};
use crate::wire::Rejection;

pub(crate) const CLIENT: &str = "10.244.1.3:37328";

pub(crate) const VIP: &str = "10.96.34.82:80";

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn span(line: usize) -> Span {
    Span { file: "scenarios/clusterip/other-node.yaml".into(), line, column: 5 }
}

pub(crate) fn probe(line: usize) -> Probe {
    Probe {
        span: span(line),
        from: Vantage::Pod(ObjectName::new("default", "client")),
        to: Destination { label: "service/nginx:80".to_owned(), address: at(VIP).ip(), port: 80, via: None },
        protocol: Protocol::Tcp,
        source_port: None,
        tcp_flags: None,
        shape: Shape::default(),
        flows: Flows::Exactly(1),
    }
}

pub(crate) fn target(number: u8) -> Target {
    Target { label: format!("pod/nginx-{number}:80"), address: [10, 244, 2, number].into(), port: Some(80) }
}

pub(crate) fn sighting(place: &str, interface: &str, direction: Direction, packet: &str) -> Sighting {
    Sighting {
        place: place.to_owned(),
        interface: interface.to_owned(),
        direction,
        flow: None,
        packet: packet.to_owned(),
    }
}

pub(crate) fn judged(line: usize, expectation: &Expectation, observation: Observation) -> ProbeReport {
    let nodes = [("worker".to_owned(), vec!["172.18.0.2".parse().unwrap()])].into();
    let context = Context { nodes, sender: vec![at(CLIENT).ip()], ..Context::default() };
    let probe = probe(line);
    ProbeReport {
        span: probe.span.clone(),
        title: probe_words(&probe),
        expected: expected_parts(&probe, expectation, &context.sender),
        judgment: judge(&probe, expectation, &observation, &context),
        observation,
        diagnosis: None,
        rules: Vec::new(),
        explain_command: None,
        duration: ms(3),
    }
}

pub(crate) fn all_parts() -> Expectation {
    Expectation {
        outcome: Some(ExpectedOutcome::Delivered(vec![target(2)])),
        source: Some(SourceExpectation::Preserved),
        reply: Some(ReplyExpectation::FromVip),
        ..Expectation::default()
    }
}

pub(crate) fn flow(outcome: ObservedOutcome, reply: Option<&str>, path: Vec<Sighting>) -> Observation {
    Observation::Flow(Box::new(FlowObservation {
        protocol: Protocol::Tcp,
        source: at(CLIENT),
        destination: at(VIP),
        outcome,
        contradiction: None,
        reply: reply.map(at),
        path,
    }))
}

pub(crate) fn delivered() -> ProbeReport {
    let translated = "10.244.1.3:37328 > 10.244.2.2:80 tcp [S]";
    let path = vec![
        sighting("node/worker", "veth-client", Direction::In, "10.244.1.3:37328 > 10.96.34.82:80 tcp [S]"),
        sighting("node/worker", "eth0", Direction::Out, translated),
        sighting("node/worker2", "eth0", Direction::In, translated),
        sighting("pod/nginx-2", "eth0", Direction::In, translated),
        sighting("pod/client", "eth0", Direction::In, "10.96.34.82:80 > 10.244.1.3:37328 tcp [S.]"),
    ];
    let delivery = Delivery {
        at: "pod/nginx-2".to_owned(),
        source: at(CLIENT),
        destination: at("10.244.2.2:80"),
        fragments: Some(1),
    };
    judged(24, &all_parts(), flow(ObservedOutcome::Delivered(delivery), Some(VIP), path))
}

pub(crate) fn rejected() -> ProbeReport {
    let syn = "10.244.1.3:37328 > 10.96.34.82:80 tcp [S]";
    let rejection = format!("ICMP 172.18.0.2 > 10.244.1.3: port unreachable (type 3, code 3) for {syn}");
    let path = vec![
        sighting("node/worker", "veth-client", Direction::In, syn),
        sighting("node/worker", "veth-client", Direction::Out, &rejection),
    ];
    let what = "ICMP port unreachable (type 3, code 3)".to_owned();
    let by = "172.18.0.2".parse().unwrap();
    let outcome = ObservedOutcome::Rejected(Rejection { kind: RejectKind::PortUnreachable, what, by });
    let rules = [
        "-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx has no endpoints\" -m tcp --dport 80 -j REJECT",
    ];
    let outcome_words = "rejected: port unreachable";
    let diagnosis = Diagnosis {
        promise: Some("delivered to 10.244.2.2:80 (only endpoint; source preserved; reply translated back)".to_owned()),
        prediction: vec!["rejected on node/worker: by table filter: -A KUBE-SERVICES -j REJECT".to_owned()],
        observation: outcome_words.to_owned(),
        meaning: "The rules break the promise, and the kernel follows the rules.".to_owned(),
        kernel: Some(KernelMatch {
            as_predicted: 2,
            matched: 3,
            difference: Some(
                ["the packet on node/worker", "predicted  -A ONE", "kernel     -A OTHER"].map(str::to_owned).to_vec(),
            ),
        }),
        ..Diagnosis::default()
    };
    ProbeReport {
        diagnosis: Some(diagnosis),
        rules: vec![RuleExcerpt { place: "node/worker".to_owned(), lines: rules.map(str::to_owned).to_vec() }],
        explain_command: Some(
            "svclab explain scenarios/clusterip/other-node.yaml --from pod/client --to service/nginx:80 --live"
                .to_owned(),
        ),
        ..judged(24, &all_parts(), flow(outcome, None, path))
    }
}

pub(crate) fn masqueraded() -> ProbeReport {
    let delivery = Delivery {
        at: "pod/nginx-2".to_owned(),
        source: at("172.18.0.2:1031"),
        destination: at("10.244.2.2:80"),
        fragments: Some(1),
    };
    judged(30, &all_parts(), flow(ObservedOutcome::Delivered(delivery), None, Vec::new()))
}

pub(crate) fn spread(counts: [u64; 3], lost: u64) -> ProbeReport {
    let delivered = [(2, counts[0]), (3, counts[1]), (4, counts[2])];
    let came_out = counts.iter().sum();
    let tally = Tally {
        sent: came_out + lost,
        sender: Some(at(CLIENT).ip()),
        delivered: delivered.map(|(number, count)| (SocketAddr::from(([10, 244, 2, number], 80)), count)).into(),
        sources: [(at(CLIENT).ip(), came_out)].into(),
        lost,
        ..Tally::default()
    };
    let targets = [2, 3, 4].map(target).to_vec();
    let expectation = Expectation {
        outcome: Some(ExpectedOutcome::Delivered(targets)),
        balance: Some(Balance::Even),
        ..Expectation::default()
    };
    judged(31, &expectation, Observation::Tally(tally))
}

pub(crate) fn test(name: &str, line: usize, millis: u64, probes: Vec<ProbeReport>) -> TestReport {
    TestReport {
        name: name.to_owned(),
        span: span(line),
        tags: vec!["slow".to_owned()],
        probes,
        error: None,
        earlier: Vec::new(),
        duration: ms(millis),
    }
}

pub(crate) fn scenario(tests: Vec<TestReport>) -> ScenarioReport {
    ScenarioReport {
        name: "a ClusterIP reaches a pod on another node".to_owned(),
        file: span(1).file,
        tests,
        duration: ms(310),
        ..ScenarioReport::default()
    }
}

pub(crate) fn trouble(message: &str, help: &str, line: Option<usize>) -> Trouble {
    Trouble {
        cause: Cause::Environment,
        message: message.to_owned(),
        help: Some(help.to_owned()),
        span: line.map(span),
    }
}

fn program(node: &str, name: Option<&str>, release: &str) -> NodeProgram {
    NodeProgram {
        node: node.to_owned(),
        name: name.map(str::to_owned),
        command: format!("/opt/kube-proxy-{release}"),
        release: Some(release.to_owned()),
    }
}

pub(crate) fn passing() -> RunReport {
    let even = spread([18_761, 18_702, 18_781], 0);
    let first = scenario(vec![
        test("the packet is translated, its source kept", 22, 4, vec![delivered()]),
        test("each replica gets its share", 29, 241, vec![even]),
    ]);
    let again = ScenarioReport {
        programs: vec![program("worker", Some("old"), "1.27.1"), program("worker2", None, "1.36.0")],
        ..scenario(vec![test("the packet is translated, its source kept", 22, 0, vec![delivered()])])
    };
    let programs = ["worker", "worker2"].map(|node| program(node, None, "1.36.0")).to_vec();
    let first = ScenarioReport { programs, ..first };
    RunReport { scenarios: vec![first, again], filtered: 2, duration: ms(412), ..RunReport::default() }
}

pub(crate) fn failing() -> RunReport {
    let first = scenario(vec![
        test("the packet is translated, its source kept", 22, 4, vec![rejected()]),
        test("the endpoint sees the client", 28, 5, vec![delivered(), masqueraded()]),
        test("each replica gets its share", 29, 1_241, vec![spread([20_900, 18_702, 16_640], 2)]),
        TestReport {
            error: Some(trouble("the step was cut short: interrupted", "Run it again.", Some(35))),
            ..test("after scaling to zero, the service rejects", 33, 2, Vec::new())
        },
        test("a test that holds beside others that do not", 40, 3, vec![delivered()]),
    ]);
    let message = "node/worker: iptables-restore rejected line 12\n-A KUBE-SERVICES -j NOWHERE";
    let second = ScenarioReport {
        name: "100% of other rules, broken".to_owned(),
        file: "scenarios/other-rules/broken,rules.yaml".into(),
        error: Some(trouble(message, "Jump to a chain that the document declares.", None)),
        ..ScenarioReport::default()
    };
    RunReport { scenarios: vec![first, second], duration: ms(62_400), ..RunReport::default() }
}

/// The report of a lab that fails.
pub(crate) fn without_a_lab() -> RunReport {
    let lab = trouble("iptables-restore is not installed", "Install it.", None);
    let missed = |name| TestReport { error: Some(lab.for_test_not_run()), ..test(name, 5, 0, Vec::new()) };
    let tests = vec![missed("one"), missed("two")];
    let report = ScenarioReport { error: Some(lab.clone()), ..scenario(tests) };
    RunReport { scenarios: vec![report], duration: ms(9), ..RunReport::default() }
}

/// A test that failed once and then passed.
pub(crate) fn flaky() -> RunReport {
    let mut one = test("the source is kept", 28, 5, vec![masqueraded()]);
    one.retried(test("the source is kept", 28, 4, vec![delivered()]));
    RunReport { scenarios: vec![scenario(vec![one])], duration: ms(9), ..RunReport::default() }
}
