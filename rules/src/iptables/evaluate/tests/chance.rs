//! Random rules, single and many in a row.

use rstest::rstest;

use super::*;
use crate::walk::{Assumptions, Share};

fn forwarded() -> Packet {
    tcp("10.0.0.1", "10.0.0.2", 80)
}

#[test]
fn chance_takes_its_share_of_31_bits() {
    let program = v4("*filter\n-A FORWARD -m statistic --mode random --probability 0.33333333349 -j DROP\n\
                      -A FORWARD -m statistic --mode nth --every 4 -j ACCEPT\n-A FORWARD -j REJECT\nCOMMIT\n");
    let packet = forwarded();
    let branches = program.walk(&machine(), Hook::Forward, &packet, Tracking::first(&packet));
    let shares: Vec<_> = branches.iter().map(|branch| (word(&branch.outcome), branch.share)).collect();
    let rest = Share::ONE.times((1 << 31) - 715_827_883, 1 << 31);
    let expected =
        [("drop", Share::ONE.times(715_827_883, 1 << 31)), ("accept", rest.times(1, 4)), ("reject", rest.times(3, 4))];
    assert_eq!(shares, expected);
    assert_eq!(branches[0].assumptions, Assumptions::NONE);
    assert_eq!(branches[1].assumptions, Assumptions::COUNTER);
}

#[test]
fn chance_before_a_condition_that_fails_splits_nothing() {
    let program = v4(
        "*filter\n-A FORWARD -m statistic --mode random --probability 0.5 -p udp -m udp --dport 53 -j DROP\n\
                      -A FORWARD -m statistic --mode random --probability 0.5 -m comment --comment x -m mark --mark 9 -j DROP\n\
                      -A FORWARD -m statistic --mode random --probability 0.5 -j LOG --log-prefix \"a b\"\nCOMMIT\n",
    );
    assert_eq!(only_branch(&program, Hook::Forward, &forwarded()).share, Share::ONE);
}

/// Returns the shares of known and unknown branches, and the number of branches.
fn known(branches: &[Branch]) -> (f64, f64, usize) {
    let sum = |is_known: bool| {
        let own = branches.iter().filter(|branch| (word(&branch.outcome) != "unknown") == is_known);
        own.fold(Share::ZERO, |sum, branch| sum.plus(branch.share)).to_f64()
    };
    (sum(true), sum(false), branches.len())
}

fn forwarded_by(rules: &str) -> Vec<Branch> {
    let packet = forwarded();
    v4(rules).walk(&machine(), Hook::Forward, &packet, Tracking::first(&packet))
}

const HALF: &str = "-A FORWARD -m statistic --mode random --probability 0.5";

/// Returns `count` rules that set a bit of the mark at random, each a different one.
fn marks(count: usize) -> String {
    (0..count).map(|bit| format!("{HALF} -j MARK --or-mark {:#x}\n", 1_u32 << bit)).collect()
}

/// Returns a cascade of this many endpoints, each of which is a branch.
fn cascade(endpoints: usize) -> String {
    (1..endpoints).map(|_| format!("{HALF} -j ACCEPT\n")).chain(["-A FORWARD -j DROP\n".to_owned()]).collect()
}

/// Branches that double with each rule are followed only up to a limit. The rest is unknown, and never counts as accepted (issue 10, number
/// 22).
#[rstest]
#[case::six(6, 64, true)]
#[case::thirty_one(31, 1_500, false)]
fn random_marks_end_soon(#[case] count: usize, #[case] most: usize, #[case] is_known: bool) {
    let (known, unknown, branches) = known(&forwarded_by(&format!("*mangle\n{}COMMIT\n", marks(count))));
    assert!(branches <= most, "{branches}");
    assert!((known + unknown - 1.0).abs() < 1e-9);
    assert_eq!(unknown == 0.0, is_known, "{unknown}");
}

/// Where most packets take one of very many branches, that one is among those that are followed.
#[test]
fn the_likeliest_of_too_many_branches_are_followed() {
    let rare = |bit: u32| {
        format!("-A FORWARD -m statistic --mode random --probability 0.01 -j MARK --or-mark {:#x}\n", 1_u32 << bit)
    };
    let rules: String = (0..31).map(rare).collect();
    let (known, unknown, branches) = known(&forwarded_by(&format!("*mangle\n{rules}COMMIT\n")));
    assert!(known > 0.7 && unknown < 0.3, "{known} {unknown} {branches}");
}

/// Also if the rules are spread over all chains of a hook.
#[test]
fn random_marks_in_every_table_end_soon() {
    let tables = ["mangle", "filter", "security"].map(|table| format!("*{table}\n{}COMMIT\n", marks(31)));
    let (_, unknown, branches) = known(&forwarded_by(&tables.concat()));
    assert!(branches <= 5_000 && unknown > 0.0, "{branches}, {unknown}");
}

/// A cascade does not double branches, even for packets that were marked at random before it, or if some are dropped at random after it.
#[rstest]
#[case::alone(0, "", 1_000)]
#[case::marked(1, "", 2_000)]
#[case::dropped_after(0, "-A FORWARD -m statistic --mode random --probability 0.5 -j DROP\n", 1_999)]
fn cascades_are_followed_to_their_end(#[case] marked: usize, #[case] after: &str, #[case] expected: usize) {
    let (marks, cascade) = (marks(marked), cascade(1_000));
    let rules = format!("*mangle\n{marks}{cascade}COMMIT\n*filter\n{after}COMMIT\n");
    let (_, unknown, branches) = known(&forwarded_by(&rules));
    assert_eq!((unknown, branches), (0.0, expected));
}
