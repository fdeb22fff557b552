//! Judging many flows.

use std::net::SocketAddr;

use super::during::bounds_words;
use super::words::{self, MAX_LISTED, expected_source, is_at, label};
use super::{Context, Field, Findings, Shares, check_source};
use crate::observation::{INDEPENDENT, Tally};
use crate::scenario::{Balance, Expectation, ExpectedOutcome, SourceExpectation, Target};
use crate::stats::{FalseAlarmRate, conclude, fit, flows_to_distinguish};
use crate::text::{counted, grouped, list};

pub(super) fn judge(expectation: &Expectation, tally: &Tally, context: &Context, findings: &mut Findings) {
    let targets: &[Target] = match &expectation.outcome {
        Some(ExpectedOutcome::Delivered(targets)) => targets,
        _ => &[],
    };
    judge_accounts(expectation, tally, findings);
    judge_outcome(expectation.outcome.as_ref(), tally, findings);
    if let Some(expected) = expectation.source {
        judge_sources(expected, tally, context, findings);
    }
    if let Some(expected) = expectation.reply {
        let words = words::expected_reply_alone(expected);
        findings.differ(
            Field::Reply,
            words,
            "not recorded",
            "`reply` is checked for single flows only: remove `flows`",
        );
    }
    if let Some(balance) = &expectation.balance {
        judge_balance(expectation, balance, tally, context, findings);
    }
    if let Some(expected) = expectation.affinity {
        judge_affinity(expected, targets, tally, findings);
    }
}

/// Checks that every flow was delivered once, duplicated or lost, and that nothing else was delivered.
fn judge_accounts(expectation: &Expectation, tally: &Tally, findings: &mut Findings) {
    let outcome = expectation.outcome.as_ref();
    if let Some(bounds) = expectation.lost.filter(|bounds| !bounds.allow(tally.lost)) {
        let observed = format!("{} of {}", grouped(tally.lost), flows(tally.sent));
        findings.differ(Field::Lost, bounds_words(bounds), observed, "flows that were not delivered");
    }
    let sent = format!("{} sent", flows(tally.sent));
    if tally.sent == 0 {
        findings.differ(Field::Flows, "at least one flow", "none", "no flow was sent");
    }
    let may_be_lost = expectation.lost.is_some()
        || matches!(outcome, Some(ExpectedOutcome::Dropped(_) | ExpectedOutcome::Rejected(_) | ExpectedOutcome::Fails));
    let delivered: u64 = tally.delivered.values().sum();
    // Where a delivery is expected, a lost flow has the wrong outcome.
    let lost = if outcome.is_some() { Field::Outcome } else { Field::Flows };
    let accounts = [
        (lost, tally.lost, !may_be_lost, "delivered", "not delivered", "no flow may be lost"),
        (
            Field::Flows,
            tally.duplicated,
            true,
            "delivered once",
            "delivered more than once",
            "a flow must be delivered exactly once",
        ),
    ];
    for (field, count, matters, expected, what, reason) in accounts {
        if matters && count > 0 {
            let expected = format!("all {} {expected}", flows(tally.sent));
            findings.differ(field, expected, format!("{} {what}", flows(count)), reason);
        }
    }
    if tally.unattributed > 0 {
        let observed = format!("{} not part of any flow", counted(tally.unattributed, "packet"));
        findings.differ(Field::Flows, "only what was sent", observed, "a delivered packet must belong to a flow");
    }
    let counted = delivered + tally.lost + tally.duplicated;
    if counted != tally.sent || tally.sources.values().sum::<u64>() != delivered {
        let observed = format!("{} counted", flows(counted));
        findings.differ(Field::Flows, sent, observed, "the counts contradict each other");
    }
}

fn judge_outcome(outcome: Option<&ExpectedOutcome>, tally: &Tally, findings: &mut Findings) {
    let Some(outcome) = outcome else { return };
    let expected = words::outcome_words(outcome);
    match outcome {
        ExpectedOutcome::Delivered(targets) => {
            let elsewhere = tally.delivered.iter().filter(|(at, _)| !targets.iter().any(|target| is_at(target, **at)));
            for (at, count) in elsewhere {
                let observed = format!("{} delivered to {at}", flows(*count));
                findings.differ(Field::Outcome, &expected, observed, "they were delivered elsewhere");
            }
        }
        ExpectedOutcome::SameAsBefore => {}
        ExpectedOutcome::Dropped(_)
        | ExpectedOutcome::Rejected(_)
        | ExpectedOutcome::TooBig(_)
        | ExpectedOutcome::Fails => {
            for (at, count) in &tally.delivered {
                let observed = format!("{} delivered to {at}", flows(*count));
                findings.differ(Field::Outcome, &expected, observed, "they should not be delivered");
            }
        }
    }
    if let ExpectedOutcome::SameAsBefore = outcome {
        let reason = "the previous probe's destination is known for single flows only: remove `flows`";
        findings.differ(Field::Outcome, &expected, "not recorded", reason);
    }
    if let ExpectedOutcome::Dropped(_) | ExpectedOutcome::Rejected(_) | ExpectedOutcome::TooBig(_) = outcome {
        let reason = "how flows fail is known for single flows only: expect `fails`, or remove `flows`";
        findings.differ(Field::Outcome, expected, "not recorded", reason);
    }
}

fn judge_sources(expected: SourceExpectation, tally: &Tally, context: &Context, findings: &mut Findings) {
    for (source, count) in &tally.sources {
        if let Err(reason) = check_source(expected, *source, &context.sender, context) {
            let observed = format!("{source} in {}", flows(*count));
            findings.differ(Field::Source, expected_source(expected, &context.sender), observed, reason);
        }
    }
    if tally.sources.is_empty() {
        findings.differ(
            Field::Source,
            expected_source(expected, &context.sender),
            "nothing",
            "no receiver saw a source",
        );
    }
}

/// The cells of a balance test.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Cells {
    pub(crate) names: Vec<String>,
    pub(crate) counts: Vec<u64>,
    /// The expected share of all flows of each cell.
    pub(crate) shares: Vec<f64>,
    /// The number of endpoints that were named; the cells after them should get nothing.
    named: usize,
}

/// The cells of an expected balance: first the endpoints that are named, then all other destinations that got flows. Empty if no endpoints
/// are named.
pub(crate) fn cells(expectation: &Expectation, tally: &Tally) -> Cells {
    let shares: Vec<(&Target, f64)> = match (&expectation.balance, &expectation.outcome) {
        (Some(Balance::Shares(shares)), _) => shares.iter().map(|(target, share)| (target, *share)).collect(),
        (Some(Balance::Even), Some(ExpectedOutcome::Delivered(targets))) => {
            targets.iter().map(|target| (target, 1.0 / targets.len() as f64)).collect()
        }
        _ => return Cells::default(),
    };
    let mut cells = Cells {
        names: shares.iter().map(|(target, _)| target.label.clone()).collect(),
        counts: vec![0; shares.len()],
        shares: shares.iter().map(|(_, share)| *share).collect(),
        named: shares.len(),
    };
    for (at, count) in &tally.delivered {
        match shares.iter().position(|(target, _)| is_at(target, *at)) {
            Some(cell) => cells.counts[cell] += count,
            // A destination without a share must not get any flow.
            None => cells.add_stranger(at.to_string(), *count),
        }
    }
    // Shares refer to all flows: one endpoint's loss does not increase another one's share.
    if tally.lost > 0 {
        cells.add_stranger("nowhere".to_owned(), tally.lost);
    }
    cells
}

impl Cells {
    fn add_stranger(&mut self, name: String, count: u64) {
        self.names.push(name);
        self.counts.push(count);
        self.shares.push(0.0);
    }
}

fn judge_balance(
    expectation: &Expectation,
    balance: &Balance,
    tally: &Tally,
    context: &Context,
    findings: &mut Findings,
) {
    let targets: &[Target] = match &expectation.outcome {
        Some(ExpectedOutcome::Delivered(targets)) => targets,
        _ => &[],
    };
    let expected = words::balance_words(balance, targets);
    if *balance == Balance::All {
        return judge_reached(expected, targets, tally, findings);
    }
    let Cells { names, counts, shares, named } = cells(expectation, tally);
    if named == 0 {
        let reason = "no endpoints are named: add `delivered`";
        findings.differ(Field::Balance, expected, "not judged", reason);
        return;
    }
    let fitted = match &context.looked {
        Some(goal) => conclude(&counts, &shares, goal),
        None => fit(&counts, &shares, context.rate),
    };
    match fitted {
        Ok(fit) => {
            let words = fit.words(|cell| names[cell].clone());
            if fit.agrees {
                findings.shown.extend(words);
            } else {
                let summary = words::counts_words(&names, &counts);
                findings.differ(Field::Balance, expected, summary, words.join("; "));
            }
            findings.balance = Some(Shares { names, fit });
            judge_independence(tally, named, context.rate, findings);
            findings.shown.extend(tally.confirmation());
        }
        Err(error) => findings.differ(Field::Balance, expected, "not judged", error.to_string()),
    }
}

/// Checks that every destination got a flow.
fn judge_reached(expected: String, targets: &[Target], tally: &Tally, findings: &mut Findings) {
    let is_missed = |target: &&Target| !tally.delivered.keys().any(|at| is_at(target, *at));
    let missed: Vec<String> = targets.iter().filter(is_missed).map(|target| target.label.clone()).collect();
    if targets.is_empty() {
        let reason = "no endpoints are named: add `delivered`";
        findings.differ(Field::Balance, expected, "not judged", reason);
    } else if !missed.is_empty() {
        let observed = format!("none at {}", list(&missed, MAX_LISTED));
        findings.differ(Field::Balance, expected, observed, "every destination should get a flow");
    }
}

/// Equal shares alone do not make a balance: round robin and a choice by source port have them, too.
fn judge_independence(tally: &Tally, endpoints: usize, rate: FalseAlarmRate, findings: &mut Findings) {
    let tests = tally.independence(endpoints);
    let found = tests.iter().filter_map(|(on, test)| Some((on, test.filter(|test| !test.agrees(rate))?)));
    for (on, test) in found {
        let observed = format!("{} that depend on each other", flows(test.pairs));
        findings.differ(Field::Balance, "independent flows", observed, test.words(on));
    }
    if tests.iter().all(|(_, test)| test.is_some_and(|test| test.agrees(rate))) {
        findings.shown.push(INDEPENDENT.to_owned());
    }
}

fn judge_affinity(expected: bool, targets: &[Target], tally: &Tally, findings: &mut Findings) {
    let reached: Vec<&SocketAddr> = tally.delivered.keys().collect();
    let words = if expected { "all flows at one endpoint" } else { "flows at several endpoints" };
    let names: Vec<String> = reached.iter().map(|at| label(targets, **at)).collect();
    let needed = flows_to_distinguish(targets.len());
    if reached.is_empty() {
        findings.differ(Field::Affinity, words, "nothing", "no flow was delivered");
    } else if reached.len() > 1 {
        // This needs no statistics.
        if expected {
            findings.differ(
                Field::Affinity,
                words,
                list(&names, MAX_LISTED),
                "the client did not stay at its endpoint",
            );
        }
    } else if tally.sent < needed {
        let reason =
            format!("this few flows may all reach one endpoint by chance: set `flows` to at least {}", grouped(needed));
        findings.differ(Field::Affinity, words, flows(tally.sent), reason);
    } else if !expected {
        findings.differ(Field::Affinity, words, list(&names, MAX_LISTED), "the client stayed at one endpoint");
    }
}

fn flows(count: u64) -> String {
    counted(count, "flow")
}
