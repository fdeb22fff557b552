//! Measures on the kernel whether balance tests keep their error rates, and prints a Markdown table: see `ci/calibrate`.
//!
//! Right rules must raise no more false alarms than stated; rules that are biased must be found as often as promised.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use std::io;
use std::path::Path;

use svclab::documents::{self, Document};
use svclab::lab::{self, Backend, with_lab};
use svclab::observation::Observation;
use svclab::probe::Prober;
use svclab::scenario::{self, Flows, Probe, Scenario, Step};
use svclab::stats::{FalseAlarmRate, Goal, fit, sample_size};
use svclab::topology;

/// Three endpoints, as in the question that started it: 0.33333333349, 0.5, and always.
const SCENARIO: &str = "name: calibration
cluster: {podCIDR: 10.244.0.0/16}
nodes: [{name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}]
pods: [{name: client, node: worker, ip: 10.244.1.9}, {name: web, node: worker, replicas: 3}]
services: [{name: web, ports: [{port: 80, protocol: UDP}]}]
endpoints: [{service: web, pods: [web]}]
tests: [{name: one, probe: {from: pod/client, to: 'service/web:80', protocol: UDP}, expect: {delivered: pod/web}}]
";
/// What the rules say of the first endpoint.
const FIRST: &str = "--probability 0.33333333349";
const SHARES: [f64; 3] = [1.0 / 3.0; 3];
/// Flows of a test of right rules.
const FLOWS: u64 = 1_000;
/// Flows that are spent on the tests of one bias.
const BUDGET: u64 = 20_000_000;
/// The false-alarm rate that is raised so far that it can be measured.
const RAISED: f64 = 0.01;
const POWER: f64 = 0.9;

fn main() {
    // User namespaces are given to processes with a single thread, so before anything else.
    if let Err(error) = lab::become_privileged() {
        panic!("{error}. {}", error.help());
    }
    let rounds = std::env::args()
        .nth(1)
        .map_or(10_000, |text| text.parse().unwrap_or_else(|error| panic!("the number of tests, {text:?}: {error}")));
    println!("| rules | rate | flows of a test | tests | failed | promised |");
    println!("| --- | --- | --- | --- | --- | --- |");
    alarms(rounds);
    for bias in [0.1, 0.05, 0.02, 0.01] {
        found(bias, rounds);
    }
}

/// Tests right rules at the default rate and at one that can be measured, on the same flows.
fn alarms(rounds: u64) {
    let raised = rate(RAISED);
    let counts = counts(None, FLOWS, rounds);
    for (rate, promised) in [(FalseAlarmRate::DEFAULT, "none"), (raised, "1 % at most")] {
        println!("| right | {rate} | {FLOWS} | {rounds} | {} | {promised} |", failures(&counts, rate));
    }
}

/// Tests rules of which the first endpoint gets too much, with as many flows as it takes to find that.
fn found(bias: f64, rounds: u64) {
    let goal = Goal { relative_bias: bias, power: POWER, false_alarm: rate(RAISED) };
    let flows = sample_size(&SHARES, &goal).unwrap_or_else(|error| panic!("{error}"));
    let rounds = rounds.min(BUDGET / flows).max(1);
    let failed = failures(&counts(Some(bias), flows, rounds), goal.false_alarm);
    let share = 100.0 * failed as f64 / rounds as f64;
    let bias = bias * 100.0;
    println!("| biased by {bias} % | {} | {flows} | {rounds} | {failed} ({share:.1} %) | 90 % |", goal.false_alarm);
}

fn rate(rate: f64) -> FalseAlarmRate {
    FalseAlarmRate::new(rate).unwrap_or_default()
}

fn failures(counts: &[Vec<u64>], rate: FalseAlarmRate) -> usize {
    let fails = |counts: &&Vec<u64>| !fit(counts, &SHARES, rate).unwrap_or_else(|error| panic!("{error}")).held;
    counts.iter().filter(fails).count()
}

/// What came out of the flows of each test, by endpoint.
fn counts(bias: Option<f64>, flows: u64, rounds: u64) -> Vec<Vec<u64>> {
    let scenario = scenario::parse(SCENARIO, Path::new("calibration.yaml"), &|_| Err(io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let documents = documents::generate(&scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
    let documents: Vec<Document> = documents.into_iter().map(|document| biased(document, bias)).collect();
    let lived = with_lab(&topology::plan(&scenario), &documents, Backend::System, |lab| {
        let mut prober = Prober::new(lab, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
        let probe = Probe { flows: Flows::Exactly(flows), ..probe(&scenario) };
        (0..rounds).map(|_| count(&mut prober, &probe, flows)).collect()
    });
    lived.unwrap_or_else(|error| panic!("{error}"))
}

fn biased(document: Document, bias: Option<f64>) -> Document {
    let Some(bias) = bias else { return document };
    assert!(document.text.contains(FIRST), "the rules have no cascade of three:\n{}", document.text);
    let text = document.text.replace(FIRST, &format!("--probability {:.11}", (1.0 + bias) / 3.0));
    Document { text, ..document }
}

fn probe(scenario: &Scenario) -> Probe {
    match scenario.tests.first().and_then(|test| test.steps.first()) {
        Some(Step::Probe(probe, _)) => *probe.clone(),
        other => panic!("the scenario begins with a probe, not with {other:?}"),
    }
}

fn count(prober: &mut Prober<'_>, probe: &Probe, flows: u64) -> Vec<u64> {
    match prober.send(probe, flows) {
        Ok(Observation::Tally(tally)) => {
            let counts: Vec<u64> = tally.delivered.values().copied().collect();
            assert_eq!((counts.len(), counts.iter().sum::<u64>()), (SHARES.len(), flows), "{tally:?}");
            counts
        }
        other => panic!("flows are counted: {other:?}"),
    }
}
