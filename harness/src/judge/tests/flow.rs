//! Single flows.

use rstest::rstest;

use super::*;

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
#[case::rejected_otherwise(
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
    seen(ObservedOutcome::Duplicated(vec![delivery(CLIENT, POD), delivery(NODE, POD)]), None),
    "flows: expected one delivery, observed delivered to pod/nginx-2 at 10.244.2.2:80 from 10.244.1.3:37328, delivered to pod/nginx-2 at 10.244.2.2:80 from 172.18.0.2:37328: a flow must be delivered exactly once"
)]
#[case::rejected_and_delivered(
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

/// A node's own packet keeps its address and gets another port.
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
