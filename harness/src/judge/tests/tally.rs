//! Counts of many flows.

use rstest::rstest;

use super::*;

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
#[case::fails(outcome(ExpectedOutcome::Fails), Tally { sent: 9, lost: 9, ..Tally::default() })]
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
    "flows: expected all 12 flows delivered, observed 2 flows not delivered: no flow may be lost"
)]
#[case::duplicated(
    Expectation::default(),
    Tally { sent: 11, duplicated: 1, ..counted(&[(1, 10)]) },
    "flows: expected all 11 flows delivered once, observed 1 flow delivered more than once: a flow must be delivered exactly once"
)]
#[case::unattributed(
    outcome(ExpectedOutcome::Fails),
    Tally { sent: 5, lost: 5, unattributed: 1, ..Tally::default() },
    "flows: expected only what was sent, observed 1 packet not part of any flow: a delivered packet must belong to a flow"
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
#[case::delivered(
    outcome(ExpectedOutcome::Fails),
    Tally { sent: 12, lost: 2, ..counted(&[(1, 10)]) },
    "outcome: expected not delivered, observed 10 flows delivered to 10.244.2.1:80: they should not be delivered"
)]
#[case::rejected(
    outcome(ExpectedOutcome::Rejected(RejectKind::Any)),
    Tally { sent: 2, lost: 2, ..Tally::default() },
    "outcome: expected rejected, observed not recorded: how flows fail is known for single flows only: expect `fails`, or remove `flows`"
)]
#[case::dropped(
    outcome(ExpectedOutcome::Dropped(DropPlace::InCluster)),
    Tally { sent: 2, lost: 2, ..Tally::default() },
    "outcome: expected dropped on a node, observed not recorded: how flows fail is known for single flows only: expect `fails`, or remove `flows`"
)]
#[case::reply(
    Expectation { reply: Some(ReplyExpectation::FromVip), ..delivered_to([1]) },
    counted(&[(1, 10)]),
    "reply: expected a reply from the probed address, observed not recorded: `reply` is checked for single flows only: remove `flows`"
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
    "balance: expected pod/nginx-1:80 100 %, observed pod/nginx-1:80 999, 10.244.2.2:80 1: pod/nginx-1:80 got 999 of 1,000 flows (99.9 %), should get 1,000 (100 %), chance 0; 10.244.2.2:80 got 1 of 1,000 flows, should get none"
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
    "affinity: expected all flows at one endpoint, observed 30 flows: this few flows may all reach one endpoint by chance: set `flows` to at least 31"
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
    // One row of neighbours does not suffice.
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

/// Agreement with the rules' counters is shown. Disagreement is not a difference from the expectation: see
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
