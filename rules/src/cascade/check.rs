//! Checks that the probabilities of a cascade give every endpoint the same share, and how they fail to.

use std::collections::HashSet;

use super::defect::{Defect, Kind};
use super::{Chance, Step};
use crate::chains::{self, FIVE_DIGITS, TEN_DIGITS, fits, is_even};
use crate::iptables::Probability;
use crate::walk::Share;

/// Returns the defects in the probabilities of the steps for this many different endpoints. If an endpoint has several rules and the
/// cascade is right without one of them, that rule is a duplicate, which is another defect.
pub(super) fn check(steps: &[Step], endpoints: usize) -> Vec<Defect> {
    if steps.len() > endpoints {
        let mut last_first: Vec<Step> = once(steps.iter().rev());
        last_first.reverse();
        let without_strays = [once(steps.iter()), last_first].map(|rest| chances(&rest, endpoints));
        let is_right = |found: &Vec<Defect>| found.iter().all(|one| matches!(one.kind, Kind::FiveDigits { .. }));
        if let Some(found) = without_strays.into_iter().find(is_right) {
            return found;
        }
    }
    chances(steps, endpoints)
}

/// Returns the defects in the probabilities of an excerpt that hold whatever rules it leaves out, also between those that it shows: in an even
/// cascade they are 1/n with an n that falls from rule to rule.
pub(super) fn check_excerpt(steps: &[Step]) -> Vec<Defect> {
    let mut found = Vec::new();
    let mut before: Option<(usize, usize)> = None;
    for step in steps {
        let Chance::Below(probability) = step.chance else { continue };
        let below = before.map_or(usize::MAX, |(_, of)| of);
        match largest_fitting(probability, below) {
            Some(of) => before = Some((step.rule, of)),
            None => {
                let is_of_none = largest_fitting(probability, usize::MAX).is_none();
                let after = before.filter(|_| !is_of_none).map(|(rule, _)| rule);
                found.push(Defect { rule: step.rule, kind: Kind::FitsNone { written: step.chance.words(), after } });
            }
        }
    }
    found
}

/// The largest n for which 1/n is not zero in five digits. Of larger ones, which no Service has as endpoints, only the nearest is tried.
const MOST_IN_FIVE_DIGITS: usize = 200_000;

/// Returns the largest n below a limit for which a threshold is that of 1/n. Several fit five digits.
fn largest_fitting(probability: Probability, below: usize) -> Option<usize> {
    let nearest = chains::nearest(probability);
    let others = if nearest > MOST_IN_FIVE_DIGITS { 1 } else { nearest * nearest / 100_000 + 1 };
    let most = nearest.saturating_add(others).min(below.saturating_sub(1));
    let least = nearest.saturating_sub(others).max(1);
    (least..=most).rev().find(|number| fits(probability, *number))
}

/// Keeps the first step of every endpoint.
fn once<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<Step> {
    let mut known = HashSet::new();
    steps.filter(|step| known.insert(step.endpoint.as_str())).cloned().collect()
}

fn chances(steps: &[Step], endpoints: usize) -> Vec<Defect> {
    let one_in: Vec<Option<usize>> =
        steps.iter().zip((1..=steps.len()).rev()).map(|(step, left)| one_in(step, left)).collect();
    if let Some(known) = one_in.iter().copied().collect::<Option<Vec<usize>>>() {
        if is_other_order(&known) {
            return vec![order(steps, &known)];
        }
        let gaps = gaps(steps, &known);
        if !gaps.is_empty() {
            return gaps;
        }
    }
    let mut found: Vec<Defect> = steps
        .iter()
        .zip(&one_in)
        .zip((1..=steps.len()).rev())
        .filter_map(|((step, of), left)| uneven(step, *of, left))
        .collect();
    found.extend(five_digits(steps, endpoints));
    found
}

/// Returns n if a rule's probability is 1/n; where several n fit the written digits, the expected one.
fn one_in(step: &Step, left: usize) -> Option<usize> {
    let probability = match step.chance {
        Chance::Below(probability) => probability,
        Chance::Always => return Some(1),
        Chance::Drawn { .. } | Chance::Nth { .. } | Chance::Condition => return None,
    };
    if fits(probability, left) { Some(left) } else { chains::one_in(probability) }
}

/// Returns whether these are the numbers n to 1 in a different order.
fn is_other_order(one_in: &[usize]) -> bool {
    let mut sorted = one_in.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let is_all = sorted.iter().copied().eq((1..=sorted.len()).rev());
    is_all && sorted != one_in
}

fn order(steps: &[Step], one_in: &[usize]) -> Defect {
    let wrong = one_in.iter().zip((1..=one_in.len()).rev()).position(|(of, left)| *of != left).unwrap_or(0);
    let by_size = |one: &Share, other: &Share| one.to_f64().total_cmp(&other.to_f64());
    let shares = || steps.iter().map(|step| step.share);
    let (least, most) = (shares().min_by(by_size), shares().max_by(by_size));
    let kind = Kind::Order { least: least.unwrap_or(Share::ZERO), most: most.unwrap_or(Share::ZERO) };
    Defect { rule: steps[wrong].rule, kind }
}

/// Finds where n falls by more than one between two rules: rules are missing there. If n rises anywhere, missing rules are not the
/// explanation, and nothing is returned.
fn gaps(steps: &[Step], one_in: &[usize]) -> Vec<Defect> {
    if !one_in.windows(2).all(|pair| pair[0] > pair[1]) {
        return Vec::new();
    }
    let next = one_in.iter().skip(1).copied().chain([0]);
    let after = steps.iter().skip(1).map(|step| Some(step.share)).chain([None]);
    let gaps = steps.iter().zip(one_in).zip(next.zip(after)).filter(|((_, of), (next, _))| **of > *next + 1);
    gaps.map(|((step, of), (next, after))| {
        let kind = Kind::Missing { endpoints: of - next - 1, share: step.share, next: after };
        Defect { rule: step.rule, kind }
    })
    .collect()
}

/// Returns the defect of a rule with probability 1/`of` where `left` endpoints remain.
fn uneven(step: &Step, of: Option<usize>, left: usize) -> Option<Defect> {
    let is_reached = step.share != Share::ZERO || step.chance.threshold() == 0;
    if matches!(step.chance, Chance::Condition | Chance::Drawn { .. } | Chance::Nth { .. })
        || of == Some(left)
        || !is_reached
    {
        return None;
    }
    let written = if step.chance == Chance::Always { "1".to_owned() } else { step.chance.words() };
    let of = of.filter(|of| *of > 1);
    let kind = Kind::Probability { written, even: 1.0 / left as f64, of, share: step.share };
    Some(Defect { rule: step.rule, kind })
}

/// Reports all rules that are even to five digits but not to ten as one defect, placed at the first of them.
fn five_digits(steps: &[Step], endpoints: usize) -> Option<Defect> {
    let is_short = |step: &Step, left: usize| match step.chance {
        Chance::Below(own) => {
            !is_even(own.threshold(), left, TEN_DIGITS) && is_even(own.threshold(), left, FIVE_DIGITS)
        }
        Chance::Always | Chance::Drawn { .. } | Chance::Nth { .. } | Chance::Condition => false,
    };
    let numbered = steps.iter().zip((1..=steps.len()).rev());
    let short: Vec<&Step> = numbered.filter(|(step, left)| is_short(step, *left)).map(|(step, _)| step).collect();
    let first = short.first()?;
    let deviation = |step: &Step| step.share.to_f64() * endpoints as f64 - 1.0;
    let worst = steps.iter().max_by(|one, other| deviation(one).abs().total_cmp(&deviation(other).abs()))?;
    let alike = steps.windows(2).filter(|pair| pair[0].chance == pair[1].chance).count();
    let kind =
        Kind::FiveDigits { rules: short.len(), alike, endpoint: worst.endpoint.clone(), deviation: deviation(worst) };
    Some(Defect { rule: first.rule, kind })
}
