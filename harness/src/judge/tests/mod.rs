//! Tables of expectations, observations and judgments.

mod flow;
mod tally;

use super::*;
use crate::observation::{Delivery, FlowObservation, ObservedOutcome, Tally, Translations};
use crate::scenario::{
    Balance, Destination, DropPlace, ExpectedOutcome, Flows, RejectKind, ReplyExpectation, Shape, Span, Target, Vantage,
};
use crate::wire::Rejection;
use std::net::{IpAddr, SocketAddr};
use svclab_rules::cluster::{ObjectName, Protocol};

const CLIENT: &str = "10.244.1.3:37328";
const VIP: &str = "10.96.34.82:80";
const POD: &str = "10.244.2.2:80";
const NODE: &str = "172.18.0.2:37328";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    at(text).ip()
}

fn probe() -> Probe {
    Probe {
        span: Span { file: "test.yaml".into(), line: 1, column: 1 },
        from: Vantage::Pod(ObjectName::new("default", "client")),
        to: Destination { label: "service/nginx:80".to_owned(), address: ip(VIP), port: 80, via: None },
        protocol: Protocol::Tcp,
        source_port: None,
        tcp_flags: None,
        shape: Shape::default(),
        flows: Flows::Exactly(1),
    }
}

fn dropped_on(place: &str) -> ObservedOutcome {
    ObservedOutcome::Dropped { at: place.to_owned(), left_cluster: place == "underlay" }
}

fn context() -> Context {
    let nodes = [("worker".to_owned(), vec![ip(NODE), "10.244.1.1".parse().unwrap()])].into();
    Context { nodes, sender: vec![ip(CLIENT)], rate: FalseAlarmRate::DEFAULT, before: None, looked: None }
}

fn target(number: u8) -> Target {
    Target { label: format!("pod/nginx-{number}:80"), address: IpAddr::from([10, 244, 2, number]), port: Some(80) }
}

fn delivered_to(numbers: impl IntoIterator<Item = u8>) -> Expectation {
    let targets = numbers.into_iter().map(target).collect();
    Expectation { outcome: Some(ExpectedOutcome::Delivered(targets)), ..Expectation::default() }
}

fn outcome(outcome: ExpectedOutcome) -> Expectation {
    Expectation { outcome: Some(outcome), ..Expectation::default() }
}

fn delivery(source: &str, destination: &str) -> Delivery {
    Delivery { at: "pod/nginx-2".to_owned(), source: at(source), destination: at(destination), fragments: Some(1) }
}

fn seen(outcome: ObservedOutcome, reply: Option<&str>) -> Observation {
    Observation::Flow(Box::new(FlowObservation {
        protocol: Protocol::Tcp,
        source: at(CLIENT),
        destination: at(VIP),
        outcome,
        contradiction: None,
        reply: reply.map(at),
        path: Vec::new(),
    }))
}

fn came_out(source: &str, destination: &str, reply: Option<&str>) -> Observation {
    seen(ObservedOutcome::Delivered(delivery(source, destination)), reply)
}

fn rejected(kind: RejectKind) -> Observation {
    let what = "ICMP port unreachable (type 3, code 3)".to_owned();
    seen(ObservedOutcome::Rejected(Rejection { kind, what, by: ip(NODE) }), None)
}

/// The same flow, whose sender also received a rejection.
fn contradicted(observation: Observation) -> Observation {
    let Observation::Flow(mut flow) = observation else { return observation };
    let what = "ICMP port unreachable (type 3, code 3)".to_owned();
    flow.contradiction = Some(Rejection { kind: RejectKind::PortUnreachable, what, by: ip(NODE) });
    Observation::Flow(flow)
}

fn all_parts() -> Expectation {
    Expectation {
        source: Some(SourceExpectation::Preserved),
        reply: Some(ReplyExpectation::FromVip),
        ..delivered_to([2])
    }
}

fn differences(expectation: &Expectation, observation: &Observation) -> Vec<String> {
    let judgment = judge(&probe(), expectation, observation, &context());
    assert_eq!(judgment.held, judgment.differences.is_empty());
    judgment.differences.iter().map(ToString::to_string).collect()
}

#[test]
fn long_lists_are_cut() {
    let words = expected_parts(&probe(), &delivered_to(1..=50), &[]);
    let listed = "delivered to one of pod/nginx-1:80, pod/nginx-2:80, pod/nginx-3:80, pod/nginx-4:80, pod/nginx-5:80, \
                  pod/nginx-6:80 and 44 more";
    assert_eq!(words, [(Field::Outcome, listed.to_owned())]);
}

#[test]
fn all_parts_of_an_expectation_in_words() {
    let expectation = Expectation { balance: Some(Balance::Even), affinity: Some(false), ..all_parts() };
    let words: Vec<String> = expected_parts(&probe(), &expectation, &[ip(CLIENT)])
        .iter()
        .map(|(field, words)| format!("{field}: {words}"))
        .collect();
    let expected = [
        "outcome: delivered to pod/nginx-2:80",
        "source: 10.244.1.3, the sender's own",
        "reply: a reply from 10.96.34.82:80",
        "balance: even",
        "affinity: flows at several endpoints",
    ];
    assert_eq!(words, expected);
}
