//! Measures the error rates on simulated draws with fixed seeds.

use rstest::rstest;

use super::fit::Global;
use super::*;

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and good enough to draw flows.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Spreads flows over shares. Millions are drawn in unoptimized builds, so only integers are compared.
    fn counts(&mut self, flows: u64, shares: &[f64]) -> Vec<u64> {
        let sums = shares.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some((*sum * 2_f64.powi(64)) as u64)
        });
        let limits: Vec<u64> = sums.take(shares.len() - 1).collect();
        let mut counts = vec![0; shares.len()];
        for _ in 0..flows {
            let point = self.next();
            let mut cell = 0;
            while cell < limits.len() && point >= limits[cell] {
                cell += 1;
            }
            counts[cell] += 1;
        }
        counts
    }

    /// The number of failures among a number of tests.
    fn failures(&mut self, tests: u64, flows: u64, real: &[f64], stated: &[f64], rate: FalseAlarmRate) -> u64 {
        (0..tests).filter(|_| !fit(&self.counts(flows, real), stated, rate).unwrap().agrees).count() as u64
    }
}

fn rate(rate: f64) -> FalseAlarmRate {
    FalseAlarmRate::new(rate).unwrap()
}

/// The first share is off by a relative bias; the others make up for it.
fn biased(shares: &[f64], bias: f64) -> Vec<f64> {
    let first = shares[0] * (1.0 + bias);
    let rest = (1.0 - first) / (1.0 - shares[0]);
    shares.iter().enumerate().map(|(at, share)| if at == 0 { first } else { share * rest }).collect()
}

#[rstest]
#[case::coin(&[0.5, 0.5], 40)]
#[case::three(&[1.0 / 3.0; 3], 500)]
#[case::uneven(&[0.01, 0.04, 0.95], 300)]
#[case::many(&[0.05; 20], 400)]
fn right_shares_fail_no_more_often_than_stated(#[case] shares: &[f64], #[case] flows: u64) {
    let (tests, stated) = (4_000, 0.05);
    let failures = Draws(17).failures(tests, flows, shares, shares, rate(stated)) as f64 / tests as f64;
    // Discrete counts and Bonferroni's correction make the real rate smaller; three standard deviations are 0.0103.
    assert!(failures <= stated + 0.0103, "{failures}");
    assert!(failures > 0.002, "a test that never fails shows nothing: {failures}");
}

#[test]
fn at_the_default_rate_no_right_shares_fail() {
    assert_eq!(Draws(5).failures(10_000, 300, &[0.2; 5], &[0.2; 5], FalseAlarmRate::DEFAULT), 0);
}

#[rstest]
#[case::more(&[1.0 / 3.0; 3], 0.2)]
#[case::less(&[1.0 / 3.0; 3], -0.2)]
#[case::small(&[0.05, 0.25, 0.7], 0.3)]
#[case::great(&[0.6, 0.2, 0.2], -0.1)]
fn a_bias_is_found_as_often_as_promised(#[case] shares: &[f64], #[case] bias: f64) {
    let goal = Goal { relative_bias: bias.abs(), power: 0.95, false_alarm: rate(0.01) };
    let flows = sample_size(shares, &goal).unwrap();
    let tests = 1_000;
    let found = Draws(3).failures(tests, flows, &biased(shares, bias), shares, goal.false_alarm) as f64 / tests as f64;
    // Three standard deviations are 0.021.
    assert!(found >= goal.power - 0.021, "{found} with {flows} flows");
}

#[rstest]
#[case(&[1.0 / 3.0; 3], 0.2)]
#[case(&[0.1; 10], 0.3)]
fn not_many_more_flows_are_asked_for_than_needed(#[case] shares: &[f64], #[case] bias: f64) {
    let goal = Goal { relative_bias: bias, power: 0.95, false_alarm: rate(0.01) };
    let flows = sample_size(shares, &goal).unwrap() * 8 / 10;
    let found = Draws(4).failures(1_000, flows, &biased(shares, bias), shares, goal.false_alarm) as f64 / 1_000.0;
    assert!(found < goal.power, "{found} with {flows} flows");
}

#[test]
fn small_shifts_of_many_endpoints_are_found_together() {
    // Even endpoints 12 % up, odd ones 12 % down: each alone is within its interval.
    let shares = [0.02; 50];
    let real: Vec<f64> = (0..50).map(|at| if at % 2 == 0 { 0.0224 } else { 0.0176 }).collect();
    let counts = Draws(9).counts(40_000, &real);
    let fit = fit(&counts, &shares, FalseAlarmRate::DEFAULT).unwrap();
    assert!(!fit.agrees);
    assert!(fit.global.p_value() < 1e-9, "{:?}", fit.global);
}

#[rstest]
// The normal approximation gives 27,172, 55,869 and 1,550,800.
#[case::two(2, 27_172, 27_500)]
#[case::three(3, 55_869, 56_500)]
#[case::fifty(50, 1_550_800, 1_570_000)]
fn flows_for_the_default_goal(#[case] endpoints: usize, #[case] least: u64, #[case] most: u64) {
    let flows = sample_size(&vec![1.0 / endpoints as f64; endpoints], &Goal::default()).unwrap();
    assert!((least..=most).contains(&flows), "{flows}");
}

#[test]
fn a_smaller_bias_needs_more_flows() {
    let needed =
        |shares: &[f64], relative_bias: f64| sample_size(shares, &Goal { relative_bias, ..Goal::default() }).unwrap();
    let flows = sample_size(&[0.25; 4], &Goal::default()).unwrap();
    assert!(needed(&[0.25; 4], 0.049) > flows && needed(&[0.25; 4], 0.0501) <= flows, "{flows}");
    assert!(needed(&[0.25; 4], 1.0) > 10);
    // Of an endpoint that should get everything, 0.95^135 is the first power of 0.95 below 0.001.
    assert_eq!(sample_size(&[1.0, 0.0], &Goal::default()), Ok(135));
    assert!(needed(&[1.0], 0.0498) > 135 && needed(&[1.0], 0.05) <= 135);
}

#[rstest]
#[case(&[1, 2], &[1.0], StatsError::Lengths { counts: 2, shares: 1 })]
#[case(&[1, 2], &[0.5, 0.6], StatsError::Sum(1.1))]
#[case(&[1, 2], &[-0.5, 1.5], StatsError::Share(-0.5))]
#[case(&[0, 0], &[0.5, 0.5], StatsError::NoFlows)]
fn questions_without_an_answer(#[case] counts: &[u64], #[case] shares: &[f64], #[case] error: StatsError) {
    assert_eq!(fit(counts, shares, FalseAlarmRate::DEFAULT), Err(error));
}

#[test]
fn goals_that_no_test_can_have() {
    for (relative_bias, power) in [(0.0, 0.9), (f64::NAN, 0.9), (0.1, 1.0), (0.1, f64::NAN)] {
        let goal = Goal { relative_bias, power, false_alarm: FalseAlarmRate::DEFAULT };
        assert!(matches!(sample_size(&[0.5; 2], &goal), Err(StatsError::Goal { .. })), "{goal:?}");
    }
    for bad in [0.0, 1.0, -1.0, f64::NAN] {
        assert_eq!(FalseAlarmRate::new(bad), None);
    }
}

fn words(counts: &[u64], shares: &[f64]) -> String {
    fit(counts, shares, FalseAlarmRate::DEFAULT).unwrap().words(|at| format!("pod/{at}")).join("\n")
}

#[rstest]
#[case::agrees(
    words(&[20_600, 20_600], &[0.5; 2]),
    "no endpoint is off by more than 2.5 % (relative), at a false-alarm rate of 1e-6; 41,200 flows"
)]
#[case::only(words(&[100], &[1.0]), "all of 100 flows went to the only endpoint")]
#[case::nothing_due(words(&[99, 1], &[1.0, 0.0]), "pod/0 got 99 of 100 flows (99.0 %), should get 100 (100 %), chance 0\npod/1 got 1 of 100 flows, should get none")]
fn results_in_words(#[case] words: String, #[case] expected: &str) {
    assert_eq!(words, expected);
}

#[rstest]
#[case(0.333_333, "33.3 %")]
#[case(0.0412, "4.1 %")]
#[case(0.005, "0.50 %")]
#[case(0.000_051_7, "0.0052 %")]
#[case(1.0, "100 %")]
#[case(0.0, "0 %")]
fn percents(#[case] share: f64, #[case] text: &str) {
    assert_eq!(percent(share), text);
}

/// Counts flows with interim looks at regular intervals, until the counts are clear or there are enough.
fn count_until_clear(draws: &mut Draws, real: &[f64], stated: &[f64], goal: &Goal, every: u64) -> Fit {
    let most = most_flows(stated, goal).unwrap();
    let mut counts = vec![0; stated.len()];
    let mut flows = 0;
    while flows < most {
        let some = every.min(most - flows);
        counts.iter_mut().zip(draws.counts(some, real)).for_each(|(sum, count)| *sum += count);
        flows += some;
        if is_clear(&counts, stated, goal).unwrap() {
            break;
        }
    }
    conclude(&counts, stated, goal).unwrap()
}

#[rstest]
#[case::coin(&[0.5, 0.5])]
#[case::three(&[1.0 / 3.0; 3])]
#[case::uneven(&[0.1, 0.3, 0.6])]
fn looking_often_raises_no_more_false_alarms(#[case] shares: &[f64]) {
    let goal = Goal { relative_bias: 0.3, power: 0.9, false_alarm: rate(0.1) };
    let tests = 1_000;
    let mut draws = Draws(23);
    let alarms = (0..tests).filter(|_| !count_until_clear(&mut draws, shares, shares, &goal, 7).agrees).count();
    // Three standard deviations are 0.028.
    assert!(alarms as f64 / f64::from(tests) <= 0.1 + 0.028, "{alarms}");
    assert!(alarms > 0, "a test that never fails shows nothing");
}

#[rstest]
#[case::more(&[1.0 / 3.0; 3], 0.2)]
#[case::less(&[1.0 / 3.0; 3], -0.2)]
#[case::small(&[0.1, 0.2, 0.7], 0.3)]
fn a_test_that_ends_early_finds_a_bias_as_often_as_promised(#[case] shares: &[f64], #[case] bias: f64) {
    let goal = Goal { relative_bias: bias.abs(), power: 0.95, false_alarm: rate(0.01) };
    let mut draws = Draws(29);
    let tests = 1_000;
    let real = biased(shares, bias);
    let found = (0..tests).filter(|_| !count_until_clear(&mut draws, &real, shares, &goal, 50).agrees).count();
    // Three standard deviations are 0.021.
    assert!(found as f64 / f64::from(tests) >= goal.power - 0.021, "{found}");
}

#[test]
fn clear_data_need_fewer_flows() {
    let (shares, goal) = ([1.0 / 3.0; 3], Goal::default());
    let most = most_flows(&shares, &goal).unwrap();
    let mut draws = Draws(31);
    let right: u64 =
        (0..20).map(|_| count_until_clear(&mut draws, &shares, &shares, &goal, 1_000).flows).sum::<u64>() / 20;
    assert!(right < most * 2 / 3, "{right} of {most}");
    let grossly_wrong = count_until_clear(&mut draws, &[0.5, 0.25, 0.25], &shares, &goal, 100);
    assert!(!grossly_wrong.agrees && grossly_wrong.flows < most / 20, "{} of {most}", grossly_wrong.flows);
    let stranger = conclude(&[500, 500, 1], &[0.5, 0.5, 0.0], &goal).unwrap();
    assert!(!stranger.agrees && stranger.p_value == 0.0);
    assert!(is_clear(&[500, 500, 1], &[0.5, 0.5, 0.0], &goal).unwrap());
}

#[test]
fn intervals_that_hold_at_any_time_end_where_the_bet_is_won() {
    let (shares, goal) = ([0.25; 4], Goal::default());
    let counts = [2_600, 2_450, 2_500, 2_450];
    let early = conclude(&counts, &shares, &goal).unwrap();
    let fixed = fit(&counts, &shares, goal.false_alarm).unwrap();
    assert!(early.agrees && matches!(early.global, Global::Anytime { .. }));
    for (early, fixed) in early.cells.iter().zip(&fixed.cells) {
        let (wide, narrow) = (early.interval, fixed.interval);
        assert!(wide.low < narrow.low && narrow.high < wide.high, "{wide:?} {narrow:?}");
        assert!(wide.low > 0.2 && wide.high < 0.31, "{wide:?}");
    }
    assert!(early.words(|_| String::new())[0].ends_with("; 10,000 flows, which were enough"));
}

/// Pairs of draws; with probability `sticks`, the second repeats the first.
fn pairs(draws: &mut Draws, number: u64, sticks: f64) -> Contingency<u64, u64> {
    let mut pairs = Contingency::default();
    for _ in 0..number {
        let (first, other) = (draws.next() % 5, draws.next() % 5);
        let again = ((draws.next() >> 11) as f64 / (1_u64 << 53) as f64) < sticks;
        pairs.add(first, if again { first } else { other }, 1);
    }
    pairs
}

#[test]
fn what_is_independent_is_seldom_taken_for_dependent() {
    let mut draws = Draws(37);
    let tests = 2_000;
    let alarm = |pairs: Contingency<u64, u64>| pairs.independence(5).unwrap().p_value <= 0.05;
    let alarms = (0..tests).filter(|_| alarm(pairs(&mut draws, 300, 0.0))).count();
    assert!(alarms as f64 / f64::from(tests) <= 0.05, "{alarms}");
}

#[test]
fn what_depends_is_found() {
    let mut draws = Draws(41);
    let found = pairs(&mut draws, 20_000, 0.1).independence(5).unwrap();
    assert!(found.p_value < 1e-9 && found.pairs == 20_000, "{found:?}");
    assert_eq!(Contingency::<u8, u8>::default().independence(3), None);
}
