//! Measures on the kernel whether balance tests keep their error rates, and prints a Markdown table: see `ci/calibrate`.
//!
//! Correct rules must not raise more false alarms than stated; biased rules must be detected as often as promised. Exits with 1 if the
//! measurement contradicts that.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use stats::binomial::{Interval, interval};
use stats::{FalseAlarmRate, Fit, Goal, StatsError, conclude, fit, is_clear, most_flows};
use svclab::documents::{self, Document};
use svclab::observation::{Observation, Tally};
use svclab::report::Trouble;
use svclab::scenario::{self, Probe, Scenario, Step};
use svclab::testing::{self, Lab, become_privileged};
use svclab::{Backend, text};
use svclab_rules::ruleset::Rules;

#[path = "../src/stats/mod.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the library's private statistics, compiled once more to be measured alone"
)]
mod stats;

/// Three endpoints with kube-proxy's probabilities: 0.33333333349, 0.5, and always.
const SCENARIO: &str = "name: calibration
cluster: {podCIDR: 10.244.0.0/16}
nodes: [{name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}]
pods: [{name: client, node: worker, ip: 10.244.1.9}, {name: web, node: worker, replicas: 3}]
services: [{name: web, ports: [{port: 80, protocol: UDP}]}]
endpoints: [{service: web, pods: [web]}]
tests: [{name: one, probe: {from: pod/client, to: 'service/web:80', protocol: UDP}, expect: {delivered: pod/web}}]
";
/// The probability of the first endpoint in the rules.
const FIRST: &str = "--probability 0.33333333349";
const SHARES: [f64; 3] = [1.0 / 3.0; 3];
/// The flows of a test of correct rules.
const FLOWS: u64 = 1_000;
/// The default maximum number of flows for a row whose tests take many flows each.
const BUDGET: u64 = 20_000_000;
/// A false-alarm rate that is large enough to be measured.
const RAISED: f64 = 0.01;
const POWER: f64 = 0.9;
/// The bias that tests of correct rules look for.
const SOUGHT: f64 = 0.05;
/// The probability that a row contradicts a promised rate by chance.
const MISTAKEN: f64 = 1e-6;

fn main() -> ExitCode {
    // Must come first: only a single-threaded process can create a user namespace.
    if let Err(error) = become_privileged() {
        panic!("{error}");
    }
    let number = |at, usual| {
        let given = std::env::args().nth(at);
        given.map_or(usual, |text| text.parse().unwrap_or_else(|error| panic!("a number is no {text:?}: {error}")))
    };
    let (rounds, budget) = (number(1, 10_000), number(2, BUDGET));
    println!("| rules | false-alarm rate | flows of a test | tests | failed (95 % confidence) | promised |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut kept = alarms(rounds);
    kept &= looked(None, SOUGHT, rounds, budget);
    for bias in [0.1, 0.05, 0.02, 0.01] {
        kept &= looked(Some(bias), bias, rounds, budget);
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests correct rules at the default rate and at a measurable one, on the same flows. False if they fail too often.
fn alarms(rounds: u64) -> bool {
    let counts = counts(None, rounds, |lab, probe| match lab.send(probe, FLOWS)? {
        Observation::Tally(tally) => Ok(tally),
        Observation::Flow(_) | Observation::Stream(_) => panic!("flows are counted"),
    });
    let failed = |rate| {
        let fails = |counts: &&Vec<u64>| !held(fit(counts, &SHARES, rate));
        counts.iter().filter(fails).count() as u64
    };
    let rows = [FalseAlarmRate::DEFAULT, rate(RAISED)].map(|rate| {
        row("right", rate, &FLOWS.to_string(), rounds, failed(rate));
        println!(" at most {rate} |");
        is_at_most(rounds, failed(rate), rate.get())
    });
    rows == [true, true]
}

/// Tests rules whose first endpoint may get too much, as `flows: auto` does: with interim looks, until the counts are clear. False if they
/// fail too often or not often enough.
fn looked(bias: Option<f64>, sought: f64, rounds: u64, budget: u64) -> bool {
    let goal = Goal { relative_bias: sought, power: POWER, false_alarm: rate(RAISED) };
    let most = most_flows(&SHARES, &goal).unwrap_or_else(|error| panic!("{error}"));
    let rounds = rounds.min(budget / most).max(1);
    let is_enough = |tally: &Tally| {
        let counts: Vec<u64> = tally.delivered.values().copied().collect();
        is_clear(&counts, &SHARES, &goal).unwrap_or(false)
    };
    let counts = counts(bias, rounds, |lab, probe| lab.count_until(probe, most, is_enough));
    let failed = counts.iter().filter(|counts| !held(conclude(counts, &SHARES, &goal))).count() as u64;
    let sent: u64 = counts.iter().flatten().sum();
    let flows = format!("{} on average, {most} at most", sent / rounds);
    let rules =
        bias.map_or_else(|| "right, looked at on the way".to_owned(), |bias| format!("biased by {} %", bias * 100.0));
    row(&rules, goal.false_alarm, &flows, rounds, failed);
    if bias.is_none() {
        println!(" at most {RAISED} |");
        return is_at_most(rounds, failed, RAISED);
    }
    println!(" at least {POWER} |");
    is_at_most(rounds, rounds - failed, 1.0 - POWER)
}

/// Prints a row without the promised rate: the number of failed tests, and the 95 % confidence interval of their rate in percent.
fn row(rules: &str, rate: FalseAlarmRate, flows: &str, tests: u64, failed: u64) {
    let Interval { low, high } = interval(tests, failed, 0.05);
    let (low, high) = (100.0 * low, 100.0 * high);
    print!("| {rules} | {rate} | {flows} | {tests} | {failed} ({low:.2} to {high:.2} %) |");
}

/// Whether this number of tests may fail if each fails with at most this probability.
fn is_at_most(tests: u64, count: u64, probability: f64) -> bool {
    interval(tests, count, MISTAKEN).low <= probability
}

fn rate(rate: f64) -> FalseAlarmRate {
    FalseAlarmRate::new(rate).unwrap_or_default()
}

fn held(fit: Result<Fit, StatsError>) -> bool {
    fit.unwrap_or_else(|error| panic!("{error}")).agrees
}

/// The results of each test's flows, by endpoint.
fn counts(
    bias: Option<f64>,
    rounds: u64,
    mut count: impl FnMut(&mut Lab<'_>, &Probe) -> Result<Tally, Trouble> + Send,
) -> Vec<Vec<u64>> {
    let scenario = scenario::parse(SCENARIO, Path::new("calibration.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let documents = documents::generate(&scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
    let documents: Vec<Document> = documents.into_iter().map(|document| biased(document, bias)).collect();
    let lived = testing::in_lab(&scenario, &documents, Backend::System, |lab| {
        let probe = probe(&scenario);
        let mut one = || endpoint_counts(count(lab, &probe).unwrap_or_else(|error| panic!("{error}")));
        (0..rounds).map(|_| one()).collect()
    });
    lived.unwrap_or_else(|error| panic!("{error}"))
}

fn biased(document: Document, bias: Option<f64>) -> Document {
    let Some(bias) = bias else { return document };
    let text = document.rules.print();
    assert!(text.contains(FIRST), "the rules have no cascade of three:\n{text}");
    let text = text.replace(FIRST, &format!("--probability {:.11}", (1.0 + bias) / 3.0));
    let rules = Rules::parse(document.rules.mode(), document.family, &text);
    Document { rules: Arc::new(rules.unwrap_or_else(|errors| panic!("{errors:?}"))), ..document }
}

fn probe(scenario: &Scenario) -> Probe {
    match scenario.tests.first().and_then(|test| test.steps.first()) {
        Some(Step::Probe(probe, _)) => *probe.clone(),
        other => panic!("the scenario begins with a probe, not with {other:?}"),
    }
}

/// The flows of each endpoint; together, all that were sent.
fn endpoint_counts(tally: Tally) -> Vec<u64> {
    let counts: Vec<u64> = tally.delivered.values().copied().collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (SHARES.len(), tally.sent), "{tally:?}");
    counts
}
