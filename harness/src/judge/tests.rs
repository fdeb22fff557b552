//! Tables of expectations, observations and verdicts.

use std::net::{IpAddr, SocketAddr};

use rstest::rstest;
use svclab_rules::cluster::{ObjectName, Protocol};

use super::*;
use crate::observation::{Delivery, FlowObservation, ObservedOutcome, Tally, Translations};
use crate::scenario::{
    Balance, Destination, DropPlace, ExpectedOutcome, Flows, RejectKind, ReplyExpectation, Span, Target, Vantage,
};
use crate::wire::Rejection;

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
        flows: Flows::Exactly(1),
    }
}

fn dropped_on(place: &str) -> ObservedOutcome {
    ObservedOutcome::Dropped { at: place.to_owned(), has_left: place == "underlay" }
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
    Delivery { at: "pod/nginx-2".to_owned(), source: at(source), destination: at(destination) }
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

/// The same flow, but its sender received a rejection.
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

#[rstest]
#[case::nothing_expected(Expectation::default(), seen(dropped_on("node/worker"), None))]
#[case::fails_by_rejection(outcome(ExpectedOutcome::Fails), rejected(RejectKind::PortUnreachable))]
#[case::fails_far_away(outcome(ExpectedOutcome::Fails), seen(dropped_on("underlay"), None))]
#[case::all_parts(all_parts(), came_out(CLIENT, POD, Some(VIP)))]
#[case::one_of(delivered_to([1, 2, 3]), came_out(CLIENT, POD, None))]
#[case::any_port(
    outcome(ExpectedOutcome::Delivered(vec![Target { port: None, ..target(2) }])),
    came_out(CLIENT, "10.244.2.2:8443", None)
)]
#[case::masqueraded(
    Expectation { source: Some(SourceExpectation::Masqueraded), ..delivered_to([2]) },
    came_out(NODE, POD, None)
)]
#[case::source(
    Expectation { source: Some(SourceExpectation::Address(ip("10.244.1.1:0"))), ..Expectation::default() },
    came_out("10.244.1.1:9", POD, None)
)]
#[case::reply_from(
    Expectation { reply: Some(ReplyExpectation::From(ip(POD))), ..Expectation::default() },
    came_out(CLIENT, POD, Some(POD))
)]
#[case::no_reply(
    Expectation { reply: Some(ReplyExpectation::Nothing), ..Expectation::default() },
    seen(dropped_on("node/worker"), None)
)]
#[case::rejected(
    outcome(ExpectedOutcome::Rejected(RejectKind::PortUnreachable)),
    rejected(RejectKind::PortUnreachable)
)]
#[case::rejected_anyhow(outcome(ExpectedOutcome::Rejected(RejectKind::Any)), rejected(RejectKind::SctpAbort))]
#[case::lost_outside(outcome(ExpectedOutcome::Dropped(DropPlace::Underlay)), seen(dropped_on("underlay"), None))]
#[case::dropped_there(
    outcome(ExpectedOutcome::Dropped(DropPlace::At("node/worker".to_owned()))),
    seen(dropped_on("node/worker"), None)
)]
#[case::dropped(outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)), seen(dropped_on("node/worker"), None))]
fn flows_that_are_as_expected(#[case] expectation: Expectation, #[case] observation: Observation) {
    assert_eq!(differences(&expectation, &observation), Vec::<String>::new());
}

#[rstest]
#[case::does_not_fail(
    outcome(ExpectedOutcome::Fails),
    came_out(CLIENT, "10.244.2.2:80", None),
    "outcome: expected not delivered, observed delivered to pod/nginx-2 at 10.244.2.2:80 from 10.244.1.3:37328: it should not be delivered"
)]
#[case::dropped(
    all_parts(),
    seen(dropped_on("node/worker"), None),
    "outcome: expected delivered to pod/nginx-2:80, observed dropped on node/worker: not delivered, and the sender received no error"
)]
#[case::rejected(
    all_parts(),
    rejected(RejectKind::PortUnreachable),
    "outcome: expected delivered to pod/nginx-2:80, observed rejected by 172.18.0.2: ICMP port unreachable (type 3, code 3): it was rejected instead"
)]
#[case::elsewhere(
    delivered_to([7, 8]),
    came_out(CLIENT, POD, None),
    "outcome: expected delivered to one of pod/nginx-7:80, pod/nginx-8:80, observed delivered to pod/nginx-2 at 10.244.2.2:80 from 10.244.1.3:37328: it was delivered elsewhere"
)]
#[case::port(
    delivered_to([2]),
    came_out(CLIENT, "10.244.2.2:81", None),
    "outcome: expected delivered to pod/nginx-2:80, observed delivered to pod/nginx-2 at 10.244.2.2:81 from 10.244.1.3:37328: it was delivered to the right place, but to another port"
)]
#[case::masqueraded(
    all_parts(),
    came_out(NODE, POD, Some(VIP)),
    "source: expected 10.244.1.3, the sender's own, observed 172.18.0.2: the packet was masqueraded to an address of node/worker"
)]
#[case::kept(
    Expectation { source: Some(SourceExpectation::Masqueraded), ..Expectation::default() },
    came_out(CLIENT, POD, None),
    "source: expected a node's address, observed 10.244.1.3: the packet kept the sender's own address"
)]
#[case::strange(
    Expectation { source: Some(SourceExpectation::Masqueraded), ..Expectation::default() },
    came_out("192.0.2.1:1", POD, None),
    "source: expected a node's address, observed 192.0.2.1: neither the sender nor a node has this address"
)]
#[case::no_source(
    Expectation { source: Some(SourceExpectation::Preserved), ..Expectation::default() },
    seen(dropped_on("node/worker"), None),
    "source: expected 10.244.1.3, the sender's own, observed dropped on node/worker: no receiver saw a source"
)]
#[case::not_translated_back(
    all_parts(),
    came_out(CLIENT, POD, Some(POD)),
    "reply: expected a reply from 10.96.34.82:80, observed a reply from 10.244.2.2:80: the reply was not translated back: its source is the endpoint's own address"
)]
#[case::no_reply(
    all_parts(),
    came_out(CLIENT, POD, None),
    "reply: expected a reply from 10.96.34.82:80, observed no reply: the packet was delivered, but the reply did not arrive"
)]
#[case::no_reply_due(
    Expectation { reply: Some(ReplyExpectation::Nothing), ..Expectation::default() },
    came_out(CLIENT, POD, Some(VIP)),
    "reply: expected no reply, observed a reply from 10.96.34.82:80: there should be no reply"
)]
#[case::other_reply(
    all_parts(),
    came_out(CLIENT, POD, Some("10.96.34.82:81")),
    "reply: expected a reply from 10.96.34.82:80, observed a reply from 10.96.34.82:81: the reply has another source address"
)]
#[case::refused_otherwise(
    outcome(ExpectedOutcome::Rejected(RejectKind::TcpReset)),
    rejected(RejectKind::PortUnreachable),
    "outcome: expected rejected by TCP RST, observed rejected by 172.18.0.2: ICMP port unreachable (type 3, code 3): it was rejected in another way"
)]
#[case::rejected_instead(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    rejected(RejectKind::PortUnreachable),
    "outcome: expected dropped on a node, observed rejected by 172.18.0.2: ICMP port unreachable (type 3, code 3): the sender should not receive a rejection"
)]
#[case::lost_outside(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    seen(dropped_on("underlay"), None),
    "outcome: expected dropped on a node, observed lost on the underlay: no node dropped it: it left the cluster, where no host has its address"
)]
#[case::dropped_inside(
    outcome(ExpectedOutcome::Dropped(DropPlace::Underlay)),
    seen(dropped_on("node/worker"), None),
    "outcome: expected lost on the underlay, observed dropped on node/worker: it never left the cluster"
)]
#[case::dropped_by_another(
    outcome(ExpectedOutcome::Dropped(DropPlace::At("node/worker2".to_owned()))),
    seen(dropped_on("node/worker"), None),
    "outcome: expected dropped on node/worker2, observed dropped on node/worker: it was dropped elsewhere"
)]
#[case::not_dropped(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    came_out(CLIENT, POD, None),
    "outcome: expected dropped on a node, observed delivered to pod/nginx-2 at 10.244.2.2:80 from 10.244.1.3:37328: it should not be delivered"
)]
#[case::doubled_though_nothing_was_expected(
    Expectation::default(),
    seen(ObservedOutcome::Doubled(vec![delivery(CLIENT, POD), delivery(NODE, POD)]), None),
    "flows: expected one delivery, observed delivered to pod/nginx-2 at 10.244.2.2:80 from 10.244.1.3:37328, delivered to pod/nginx-2 at 10.244.2.2:80 from 172.18.0.2:37328: a flow must be delivered exactly once"
)]
#[case::refused_and_delivered(
    delivered_to([2]),
    contradicted(came_out(CLIENT, POD, None)),
    "outcome: expected no rejection, observed rejected by 172.18.0.2: ICMP port unreachable (type 3, code 3): the packet was delivered, but its sender also received a rejection"
)]
#[case::balance(
    Expectation { balance: Some(Balance::Even), ..delivered_to([2]) },
    came_out(CLIENT, POD, None),
    "balance: expected many flows, observed one flow: one flow has no distribution: set `flows: auto`"
)]
#[case::affinity(
    Expectation { affinity: Some(true), ..delivered_to([2]) },
    came_out(CLIENT, POD, None),
    "affinity: expected many flows, observed one flow: one flow has no distribution: set `flows: auto`"
)]
fn flows_that_are_not(#[case] expectation: Expectation, #[case] observation: Observation, #[case] words: &str) {
    assert_eq!(differences(&expectation, &observation), [words]);
}

#[rstest]
#[case::the_same(Some(POD), true)]
#[case::another(Some("10.244.2.3:80"), false)]
#[case::none(None, false)]
fn the_endpoint_of_the_probe_before(#[case] before: Option<&str>, #[case] held: bool) {
    let context = Context { before: before.map(at), ..context() };
    let expected = outcome(ExpectedOutcome::SameAsBefore);
    assert_eq!(judge(&probe(), &expected, &came_out(CLIENT, POD, None), &context).held, held);
}

/// A node's own packet keeps its address, and gets another port.
#[rstest]
#[case::another_port("172.18.0.2:40000", true)]
#[case::the_same_port("172.18.0.2:37328", false)]
fn a_node_that_masquerades_its_own_packet(#[case] source: &str, #[case] held: bool) {
    let expected = Expectation { source: Some(SourceExpectation::Masqueraded), ..delivered_to([2]) };
    let Observation::Flow(flow) = came_out(source, "10.244.2.2:80", None) else { unreachable!("it is one flow") };
    let flow = FlowObservation { source: at("172.18.0.2:37328"), ..*flow };
    let context = Context { sender: vec![ip(NODE)], ..context() };
    assert_eq!(judge(&probe(), &expected, &Observation::Flow(Box::new(flow)), &context).held, held);
}

#[test]
fn source_and_reply_are_judged_both() {
    let found = differences(&all_parts(), &came_out(NODE, POD, None));
    assert_eq!(found.len(), 2, "{found:?}");
}

/// A tally whose flows were all delivered, from the client's address.
fn counted(counts: &[(u8, u64)]) -> Tally {
    let delivered: BTreeMap<SocketAddr, u64> =
        counts.iter().map(|(number, count)| (SocketAddr::from(([10, 244, 2, *number], 80)), *count)).collect();
    let sent = delivered.values().sum();
    Tally { sent, sources: [(ip(CLIENT), sent)].into(), delivered, ..Tally::default() }
}

fn balanced(balance: Balance, numbers: impl IntoIterator<Item = u8>) -> Expectation {
    Expectation { balance: Some(balance), ..delivered_to(numbers) }
}

fn shares(shares: &[(u8, f64)]) -> Balance {
    Balance::Shares(shares.iter().map(|(number, share)| (target(*number), *share)).collect())
}

#[rstest]
#[case::all_get_some(balanced(Balance::All, [1, 2]), counted(&[(1, 999), (2, 1)]))]
#[case::all_fail(outcome(ExpectedOutcome::Fails), Tally { sent: 2, lost: 2, ..Tally::default() })]
#[case::nothing_expected(Expectation::default(), counted(&[(1, 10)]))]
#[case::even(balanced(Balance::Even, [1, 2, 3]), counted(&[(1, 1_000), (2, 1_030), (3, 970)]))]
#[case::shares(
    Expectation { balance: Some(shares(&[(1, 0.25), (2, 0.75)])), ..Expectation::default() },
    counted(&[(1, 2_510), (2, 7_490)])
)]
#[case::only(balanced(Balance::Even, [1]), counted(&[(1, 50)]))]
#[case::source(
    Expectation { source: Some(SourceExpectation::Preserved), ..delivered_to([1]) },
    counted(&[(1, 50)])
)]
#[case::affinity(Expectation { affinity: Some(true), ..delivered_to([1, 2, 3]) }, counted(&[(2, 50)]))]
#[case::no_affinity(Expectation { affinity: Some(false), ..delivered_to([1, 2, 3]) }, counted(&[(2, 40), (3, 10)]))]
#[case::dropped(outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)), Tally { sent: 9, lost: 9, ..Tally::default() })]
fn tallies_that_are_as_expected(#[case] expectation: Expectation, #[case] tally: Tally) {
    assert_eq!(differences(&expectation, &Observation::Tally(tally)), Vec::<String>::new());
}

#[rstest]
#[case::one_gets_none(
    balanced(Balance::All, [1, 2]),
    counted(&[(1, 1000)]),
    "balance: expected some flows for each of 2 endpoints, observed none at pod/nginx-2:80: every destination should get a flow"
)]
#[case::lost(
    Expectation::default(),
    Tally { sent: 12, lost: 2, ..counted(&[(1, 10)]) },
    "flows: expected all of 12 flows sent, observed 2 flows not delivered: no flow may be lost"
)]
#[case::doubled(
    Expectation::default(),
    Tally { sent: 11, doubled: 1, ..counted(&[(1, 10)]) },
    "flows: expected all of 11 flows sent, observed 1 flow delivered more than once: a flow must be delivered exactly once"
)]
#[case::unattributed(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    Tally { sent: 5, lost: 5, unattributed: 1, ..Tally::default() },
    "flows: expected only what was sent, observed 1 packet that belong to no flow: a delivered packet must belong to a flow"
)]
#[case::contradiction(
    Expectation::default(),
    Tally { sent: 12, ..counted(&[(1, 10)]) },
    "flows: expected 12 flows sent, observed 10 flows counted: the counts contradict each other"
)]
#[case::nothing_sent(
    Expectation::default(),
    Tally::default(),
    "flows: expected at least one flow, observed none: no flow was sent"
)]
#[case::elsewhere(
    delivered_to([1]),
    counted(&[(1, 10), (9, 2)]),
    "outcome: expected delivered to pod/nginx-1:80, observed 2 flows delivered to 10.244.2.9:80: they were delivered elsewhere"
)]
#[case::not_dropped(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    Tally { sent: 12, lost: 2, ..counted(&[(1, 10)]) },
    "outcome: expected dropped on a node, observed 10 flows delivered to 10.244.2.1:80: they should not be delivered"
)]
#[case::rejected(
    outcome(ExpectedOutcome::Rejected(RejectKind::Any)),
    Tally { sent: 2, lost: 2, ..Tally::default() },
    "outcome: expected rejected, observed not recorded: rejections are followed for single flows only: remove `flows`"
)]
#[case::reply(
    Expectation { reply: Some(ReplyExpectation::FromVip), ..delivered_to([1]) },
    counted(&[(1, 10)]),
    "reply: expected a reply from the probed address, observed not recorded: replies are followed for single flows only: remove `flows`"
)]
#[case::source(
    Expectation { source: Some(SourceExpectation::Masqueraded), ..delivered_to([1]) },
    counted(&[(1, 10)]),
    "source: expected a node's address, observed 10.244.1.3 in 10 flows: the packet kept the sender's own address"
)]
#[case::biased(
    balanced(Balance::Even, [1, 2]),
    counted(&[(1, 6_000), (2, 4_000)]),
    "balance: expected 50.0 % for each of 2 endpoints, observed pod/nginx-1:80 6,000, pod/nginx-2:80 4,000: pod/nginx-1:80 got 6,000 of 10,000 flows (60.0 %), should get 5,000 (50.0 %), chance 1 in 6e88; pod/nginx-2:80 got 4,000 of 10,000 flows (40.0 %), should get 5,000 (50.0 %), chance 1 in 6e88"
)]
#[case::starved(
    balanced(Balance::Even, [1, 2, 3]),
    counted(&[(1, 100), (2, 100)]),
    "balance: expected 33.3 % for each of 3 endpoints, observed pod/nginx-1:80 100, pod/nginx-2:80 100, pod/nginx-3:80 0: pod/nginx-3:80 got 0 of 200 flows (0 %), should get 67 (33.3 %), chance 1 in 8e34"
)]
#[case::no_endpoints(
    Expectation { balance: Some(Balance::Even), ..Expectation::default() },
    counted(&[(1, 10)]),
    "balance: expected even, observed not judged: no endpoints are named: add `delivered`"
)]
#[case::no_share(
    Expectation { balance: Some(shares(&[(1, 1.0)])), ..Expectation::default() },
    counted(&[(1, 999), (2, 1)]),
    "balance: expected pod/nginx-1:80 100 %, observed pod/nginx-1:80 999, 10.244.2.2:80 1: pod/nginx-1:80 got 999 of 1,000 flows (99.9 %), should get 1,000 (100 %), chance none; 10.244.2.2:80 got 1 of 1,000 flows, should get none"
)]
#[case::bad_shares(
    Expectation { balance: Some(shares(&[(1, 0.5)])), ..Expectation::default() },
    counted(&[(1, 10)]),
    "balance: expected pod/nginx-1:80 50.0 %, observed not judged: the shares add up to 0.5, not to 1"
)]
#[case::no_affinity(
    Expectation { affinity: Some(true), ..delivered_to([1, 2]) },
    counted(&[(1, 40), (2, 1)]),
    "affinity: expected all flows at one endpoint, observed pod/nginx-1:80, pod/nginx-2:80: the client did not stay at its endpoint"
)]
#[case::affinity(
    Expectation { affinity: Some(false), ..delivered_to([1, 2]) },
    counted(&[(1, 40)]),
    "affinity: expected flows at several endpoints, observed pod/nginx-1:80: the client stayed at one endpoint"
)]
#[case::too_few(
    Expectation { affinity: Some(true), ..delivered_to([1, 2]) },
    counted(&[(1, 30)]),
    "affinity: expected all flows at one endpoint, observed 30 flows: so few flows may reach one endpoint by chance: set `flows` to at least 31"
)]
fn tallies_that_are_not(#[case] expectation: Expectation, #[case] tally: Tally, #[case] words: &str) {
    assert_eq!(differences(&expectation, &Observation::Tally(tally)), [words]);
}

#[test]
fn flows_that_are_dealt_out_in_turn_are_no_balance() {
    let (one, two) = (SocketAddr::from(([10, 244, 2, 1], 80)), SocketAddr::from(([10, 244, 2, 2], 80)));
    let mut tally = counted(&[(1, 1_000), (2, 1_000)]);
    tally.neighbours.add(one, two, 1_000);
    tally.ports.add(0, one, 500);
    tally.ports.add(0, two, 500);
    tally.ports.add(1, one, 500);
    tally.ports.add(1, two, 500);
    let even = balanced(Balance::Even, [1, 2]);
    // One row of neighbours is no evidence.
    assert!(judge(&probe(), &even, &Observation::Tally(tally.clone()), &context()).held);
    tally.neighbours.add(two, one, 1_000);
    let judgment = judge(&probe(), &even, &Observation::Tally(tally.clone()), &context());
    let [difference] = judgment.differences.as_slice() else { panic!("{judgment:?}") };
    assert!(
        difference.reason.starts_with("the endpoint of a flow depends on that of the previous flow"),
        "{difference}"
    );
}

#[test]
fn a_count_that_ended_early_is_judged_by_what_holds_at_any_time() {
    let goal = Goal::default();
    let context = Context { looked: Some(goal), ..context() };
    let tally = Observation::Tally(counted(&[(1, 5_000), (2, 5_000)]));
    let judgment = judge(&probe(), &balanced(Balance::Even, [1, 2]), &tally, &context);
    assert!(judgment.held && judgment.shown[0].ends_with("which were enough"), "{judgment:?}");
}

/// That rules have counted the same is shown; that they have not is no difference from what was expected: see
/// `Prober::cross_checked`.
#[test]
fn what_rules_counted_is_shown_where_it_agrees() {
    let judged = |translated: &[(u8, u64)]| {
        let mut counters = Translations::default();
        translated.iter().for_each(|(number, count)| {
            counters.add("node/worker", SocketAddr::from(([10, 244, 2, *number], 80)), *count)
        });
        let tally = Tally { translated: Some(Box::new(counters)), ..counted(&[(1, 500), (2, 510)]) };
        judge(&probe(), &balanced(Balance::Even, [1, 2]), &Observation::Tally(tally), &context())
    };
    for agreeing in [&[(1, 500), (2, 510)], &[(1, 500), (3, 0)]] {
        let judgment = judged(agreeing);
        assert!(judgment.held && judgment.shown[1].starts_with("the rules' counters agree"), "{judgment:?}");
    }
    let judgment = judged(&[(1, 501), (2, 510)]);
    assert!(judgment.held && judgment.shown.len() == 1, "{judgment:?}");
}

#[test]
fn a_balance_that_holds_says_what_was_shown() {
    let tally = Observation::Tally(counted(&[(1, 20_700), (2, 20_500)]));
    let judgment = judge(&probe(), &balanced(Balance::Even, [1, 2]), &tally, &context());
    let words = "no endpoint is off by more than 3.0 % (relative), at a false-alarm rate of 1e-6; 41,200 flows";
    assert_eq!(judgment.shown, [words]);
    assert_eq!(judgment.balance.unwrap().names, ["pod/nginx-1:80", "pod/nginx-2:80"]);
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
