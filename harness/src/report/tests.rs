//! Every renderer, with a run that passes and a run that does not.

use std::net::SocketAddr;

use insta::assert_snapshot;
use rstest::rstest;
use svclab_rules::cluster::{ObjectName, Protocol};

use super::words::duration;
use super::*;
use crate::judge::{Context, expected_parts, judge};
use crate::observation::{Delivery, Direction, FlowObservation, ObservedOutcome, Sighting, Tally};
use crate::page::{Detail, Settings};
use crate::scenario::{
    Balance, Destination, Expectation, ExpectedOutcome, Flows, Probe, RejectKind, ReplyExpectation, SourceExpectation,
    Target, Vantage,
};
use crate::wire::Rejection;

const CLIENT: &str = "10.244.1.3:37328";
const VIP: &str = "10.96.34.82:80";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn span(line: usize) -> Span {
    Span { file: "scenarios/clusterip/other-node.yaml".into(), line, column: 5 }
}

fn probe(line: usize) -> Probe {
    Probe {
        span: span(line),
        from: Vantage::Pod(ObjectName::new("default", "client")),
        to: Destination { label: "service/nginx:80".to_owned(), address: at(VIP).ip(), port: 80, via: None },
        protocol: Protocol::Tcp,
        source_port: None,
        tcp_flags: None,
        flows: Flows::Exactly(1),
    }
}

fn target(number: u8) -> Target {
    Target { label: format!("pod/nginx-{number}:80"), address: [10, 244, 2, number].into(), port: Some(80) }
}

fn sighting(place: &str, interface: &str, direction: Direction, packet: &str) -> Sighting {
    Sighting {
        place: place.to_owned(),
        interface: interface.to_owned(),
        direction,
        flow: None,
        packet: packet.to_owned(),
    }
}

fn judged(line: usize, expectation: &Expectation, observation: Observation) -> ProbeReport {
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
        look: None,
        duration: ms(3),
    }
}

fn all_parts() -> Expectation {
    Expectation {
        outcome: Some(ExpectedOutcome::Delivered(vec![target(2)])),
        source: Some(SourceExpectation::Preserved),
        reply: Some(ReplyExpectation::FromVip),
        ..Expectation::default()
    }
}

fn flow(outcome: ObservedOutcome, reply: Option<&str>, path: Vec<Sighting>) -> Observation {
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

fn delivered() -> ProbeReport {
    let translated = "10.244.1.3:37328 > 10.244.2.2:80 tcp [S]";
    let path = vec![
        sighting("node/worker", "veth-client", Direction::In, "10.244.1.3:37328 > 10.96.34.82:80 tcp [S]"),
        sighting("node/worker", "eth0", Direction::Out, translated),
        sighting("node/worker2", "eth0", Direction::In, translated),
        sighting("pod/nginx-2", "eth0", Direction::In, translated),
        sighting("pod/client", "eth0", Direction::In, "10.96.34.82:80 > 10.244.1.3:37328 tcp [S.]"),
    ];
    let delivery = Delivery { at: "pod/nginx-2".to_owned(), source: at(CLIENT), destination: at("10.244.2.2:80") };
    judged(24, &all_parts(), flow(ObservedOutcome::Delivered(delivery), Some(VIP), path))
}

fn rejected() -> ProbeReport {
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
        promise: Some("delivered to 10.244.2.2:80 (1/1; source preserved; reply from the address asked)".to_owned()),
        prediction: vec!["1: rejected on node/worker: by table filter: -A KUBE-SERVICES -j REJECT".to_owned()],
        observation: outcome_words.to_owned(),
        meaning: "The rules do not do what is promised, and the kernel does what the rules say.".to_owned(),
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
        look: Some(
            "svclab explain scenarios/clusterip/other-node.yaml --from pod/client --to service/nginx:80 --live"
                .to_owned(),
        ),
        ..judged(24, &all_parts(), flow(outcome, None, path))
    }
}

fn masqueraded() -> ProbeReport {
    let delivery =
        Delivery { at: "pod/nginx-2".to_owned(), source: at("172.18.0.2:1031"), destination: at("10.244.2.2:80") };
    judged(30, &all_parts(), flow(ObservedOutcome::Delivered(delivery), None, Vec::new()))
}

fn spread(counts: [u64; 3], lost: u64) -> ProbeReport {
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

fn test(name: &str, line: usize, millis: u64, probes: Vec<ProbeReport>) -> TestReport {
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

fn scenario(tests: Vec<TestReport>) -> ScenarioReport {
    ScenarioReport {
        name: "a ClusterIP reaches a pod on another node".to_owned(),
        file: span(1).file,
        tests,
        duration: ms(310),
        ..ScenarioReport::default()
    }
}

fn trouble(message: &str, help: &str, line: Option<usize>) -> Trouble {
    Trouble {
        cause: Cause::Environment,
        message: message.to_owned(),
        help: Some(help.to_owned()),
        span: line.map(span),
    }
}

pub(crate) fn passing() -> RunReport {
    let even = spread([18_761, 18_702, 18_781], 0);
    let first = scenario(vec![
        test("the packet is translated, its source kept", 22, 4, vec![delivered()]),
        test("each replica gets its share", 29, 241, vec![even]),
    ]);
    let again = ScenarioReport {
        ..scenario(vec![test("the packet is translated, its source kept", 22, 0, vec![delivered()])])
    };
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
    let message = "node/worker: iptables-restore refused line 12\n-A KUBE-SERVICES -j NOWHERE";
    let second = ScenarioReport {
        name: "100% of other rules, broken".to_owned(),
        file: "scenarios/other-rules/broken,rules.yaml".into(),
        error: Some(trouble(message, "Jump to a chain that the document declares.", None)),
        ..ScenarioReport::default()
    };
    RunReport { scenarios: vec![first, second], duration: ms(62_400), ..RunReport::default() }
}

fn plain(detail: Detail) -> Settings {
    Settings { detail, ..Settings::default() }
}

#[test]
fn console_passing() {
    assert_snapshot!(console::render(&passing(), plain(Detail::Normal)));
}

#[test]
fn console_failing() {
    assert_snapshot!(console::render(&failing(), plain(Detail::Normal)));
}

#[test]
fn console_verbose() {
    assert_snapshot!(console::render(&passing(), plain(Detail::Verbose)));
}

#[test]
fn console_quiet() {
    assert_eq!(console::render(&passing(), plain(Detail::Quiet)), "");
    let quiet = console::render(&failing(), plain(Detail::Quiet));
    assert!(!quiet.contains("a test that holds"), "{quiet}");
    assert!(quiet.contains("FAIL  each replica gets its share"), "{quiet}");
}

#[test]
fn colours_add_nothing_but_colours() {
    for detail in [Detail::Quiet, Detail::Normal, Detail::Verbose] {
        for run in [passing(), failing()] {
            let coloured = console::render(&run, Settings { colours: true, ..plain(detail) });
            let lines = coloured.lines().map(|line| strip_colours(line).trim_end().to_owned() + "\n");
            assert_eq!(lines.collect::<String>(), console::render(&run, plain(detail)));
        }
    }
    assert!(
        console::render(&passing(), Settings { colours: true, ..Settings::default() }).contains("\x1b[32mok   \x1b[0m")
    );
}

/// Takes out escape sequences of the form ESC [ ... m.
fn strip_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or("", |(_, rest)| rest)).collect::<String>()
}

#[test]
fn json_passing() {
    assert_snapshot!(crate::text::json(&json::document(&passing())).unwrap());
}

#[test]
fn json_failing() {
    assert_snapshot!(crate::text::json(&json::document(&failing())).unwrap());
}

#[test]
fn what_showed_nothing_is_an_error() {
    let nothing = test("nothing", 1, 0, Vec::new());
    assert_eq!(nothing.status(), Status::Error);
    assert_eq!(scenario(Vec::new()).status(), Status::Error);
    let run = RunReport { scenarios: vec![scenario(Vec::new()), scenario(vec![nothing])], ..RunReport::default() };
    assert_eq!(run.counts(), Counts { scenarios: 2, errors: 1, scenario_errors: 1, ..Counts::default() });
    assert_eq!(RunReport::default().status(), Status::Ok);
}

#[rstest]
#[case(0, "< 1 ms")]
#[case(84, "84 ms")]
#[case(1_310, "1.31 s")]
#[case(59_994, "59.99 s")]
#[case(59_999, "1 min 00 s")]
#[case(123_400, "2 min 03 s")]
fn durations(#[case] millis: u64, #[case] words: &str) {
    assert_eq!(duration(ms(millis)), words);
}

#[rstest]
#[case(probe(1), "pod/client > service/nginx:80 tcp")]
#[case(
    Probe { from: Vantage::Pod(ObjectName::new("kube-system", "dns")), source_port: Some(40_000), ..probe(1) },
    "pod/kube-system/dns > service/nginx:80 tcp from port 40000"
)]
#[case(
    Probe {
        from: Vantage::Localhost("worker".to_owned()),
        to: Destination { label: "loadbalancer/web:80".to_owned(), via: Some("worker2".to_owned()), ..probe(1).to },
        ..probe(1)
    },
    "localhost@worker > loadbalancer/web:80 tcp by node/worker2"
)]
#[case(
    Probe {
        from: Vantage::Host("outside".to_owned()),
        to: Destination { label: "nodeport/web:80@worker".to_owned(), via: Some("worker".to_owned()), ..probe(1).to },
        ..probe(1)
    },
    "host/outside > nodeport/web:80@worker tcp"
)]
fn probes_in_words(#[case] probe: Probe, #[case] words: &str) {
    assert_eq!(probe_words(&probe), words);
}

/// A capture that cannot be written is an error, and no test.
#[test]
fn an_error_beside_the_tests_is_no_test() {
    let held = test("one", 5, 84, vec![delivered()]);
    let report = ScenarioReport {
        error: Some(trouble("writing a.pcapng: no space", "Free some.", None)),
        ..scenario(vec![held])
    };
    let run = RunReport { scenarios: vec![report], duration: ms(9), ..RunReport::default() };
    assert_eq!(run.counts(), Counts { scenarios: 1, ok: 1, scenario_errors: 1, ..Counts::default() });
    assert_eq!(run.status(), Status::Error);
    let page = console::render(&run, plain(Detail::Normal));
    assert!(page.ends_with("1 scenario, 1 test: 1 ok; 1 scenario error, in 9 ms\n"), "{page}");
}

/// The report of a lab that fails.
pub(crate) fn without_a_lab() -> RunReport {
    let lab = trouble("iptables-restore is not installed", "Install it.", None);
    let missed = |name| TestReport { error: Some(lab.of_what_follows()), ..test(name, 5, 0, Vec::new()) };
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

/// A lab that fails is reported once, and each of its tests counts.
#[test]
fn tests_of_a_lab_that_fails() {
    let run = without_a_lab();
    assert_eq!(run.counts(), Counts { scenarios: 1, errors: 2, ..Counts::default() });
    let page = "a ClusterIP reaches a pod on another node  scenarios/clusterip/other-node.yaml\n  \
        ERROR one     < 1 ms\n  \
        ERROR two     < 1 ms\n  \
        ERROR the lab\n\n        \
        iptables-restore is not installed\n        \
        Install it.\n\n";
    assert!(
        console::render(&run, plain(Detail::Normal)).starts_with(page),
        "{}",
        console::render(&run, plain(Detail::Normal))
    );
}

#[test]
fn a_flaky_test_is_never_hidden() {
    let run = flaky();
    assert_eq!((run.status(), run.counts().flaky), (Status::Ok, 1));
    for detail in [Detail::Quiet, Detail::Normal] {
        let page = console::render(&run, plain(detail));
        assert!(page.contains("FLAKY the source is kept") && page.contains("attempt 1 of 2: source: "), "{page}");
    }
    assert!(console::render(&run, plain(Detail::Normal)).contains("1 ok (1 flaky)"));
}
