//! Differences between two models.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;

use super::finding::{Difference, Fact, Finding, Subject};
use super::led_elsewhere;
use super::model::{Group, Line, Order, Part, Place, Service, ServiceRules, Shares};
use crate::chains::Policy;

/// A difference and its line.
type At = (Difference, Line);

/// Returns the differences, `most` at most: services by name, then chains and sets of no service.
pub(super) fn differences<K: Ord + Display + 'static, S: ServiceRules<K>>(
    expected: &S,
    found: &S,
    most: usize,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = of_services(expected, found).take(most).collect();
    led_elsewhere::join(&mut findings);
    findings.sort_by(|a, b| a.subject.cmp(&b.subject));
    let rest = most - findings.len();
    findings.extend(of_parts(expected, found).take(rest));
    findings
}

/// Returns the differences between services, by their keys.
fn of_services<'s, K: Ord + Display + 'static, S: ServiceRules<K>>(
    expected: &'s S,
    found: &'s S,
) -> impl Iterator<Item = Finding> + use<'s, K, S> {
    let keys: BTreeSet<&K> = expected.services().chain(found.services()).collect();
    keys.into_iter().filter(|key| !expected.has_same_service(found, key)).flat_map(|key| {
        let name = expected.names().get(key).or_else(|| found.names().get(key));
        let subject = Subject::Service(name.cloned().unwrap_or_else(|| key.to_string()));
        let first_line = |found: &Service| found.facts.values().filter_map(|stated| stated.line).min();
        let differences = match (expected.service(key), found.service(key)) {
            (Some(expected), Some(found)) => service(&expected, &found),
            (Some(_), None) => vec![(Difference::Missing(Fact::Whole), None)],
            (None, found) => {
                vec![(Difference::Unexpected(Fact::Whole), found.and_then(|found| first_line(&found)))]
            }
        };
        differences.into_iter().map(move |(difference, line)| Finding { subject: subject.clone(), difference, line })
    })
}

/// Returns the differences between chains and sets that belong to no service.
fn of_parts<'s, K: 'static, S: ServiceRules<K>>(
    expected: &'s S,
    found: &'s S,
) -> impl Iterator<Item = Finding> + use<'s, K, S> {
    let subjects: BTreeSet<&Subject> = expected.subjects().chain(found.subjects()).collect();
    subjects.into_iter().filter(|subject| !expected.has_same_part(found, subject)).flat_map(|subject| {
        let (should, is) = (expected.part(subject), found.part(subject));
        let empty = |part: &Part| part.order.places.is_empty() && part.rules.is_empty();
        let whole = match (&should, &is) {
            (Some(part), None) if empty(part) => Some((Difference::Missing(Fact::Whole), None)),
            (None, Some(part)) if empty(part) => Some((Difference::Unexpected(Fact::Whole), None)),
            _ => None,
        };
        let [should, is] = [should, is].map(Option::unwrap_or_default);
        let differences = whole.into_iter().chain(part(subject, &should, &is));
        differences.map(|(difference, line)| Finding { subject: subject.clone(), difference, line })
    })
}

fn service(expected: &Service, found: &Service) -> Vec<At> {
    let mut differences = Vec::new();
    let empty = Group::default();
    for policy in keys(&expected.groups, &found.groups) {
        let [expected, found] = [expected, found].map(|service| service.groups.get(policy).unwrap_or(&empty));
        endpoints(&mut differences, *policy, expected, found);
    }
    let reported: BTreeSet<(Policy, String)> = differences.iter().filter_map(|(one, _)| endpoint_of(one)).collect();
    let unchecked = lacks_check(expected, found) || lacks_check(found, expected);
    let unreported = |fact: &Fact| match fact {
        Fact::Affinity(policy, endpoint) => !reported.contains(&(*policy, endpoint.clone())),
        Fact::Hairpin(endpoint) | Fact::Translation(endpoint) | Fact::Memory(endpoint) | Fact::Clients(endpoint) => {
            !reported.iter().any(|(_, other)| other == endpoint)
        }
        // Ranges are not compared if only one side has a source-range check at all.
        Fact::SourceRange(_) => !unchecked,
        _ => true,
    };
    let facts = keys(&expected.facts, &found.facts);
    for fact in facts.into_iter().filter(|fact| unreported(fact)) {
        let line = found.facts.get(fact).and_then(|stated| stated.line);
        let texts = |service: &'_ Service| service.facts.get(fact).map(|stated| stated.texts.clone());
        differences.extend(match (texts(expected), texts(found)) {
            (Some(expected), Some(found)) if expected == found => None,
            (Some(expected), Some(found)) if is_repeated(&expected, &found) => {
                let (times, expected) = (found.len(), expected.len());
                Some((Difference::Repeated { fact: fact.clone(), times, expected }, line))
            }
            (Some(expected), Some(found)) => {
                Some((changed(fact.clone(), &expected.join(", "), &found.join(", ")), line))
            }
            (Some(_), None) => Some((Difference::Missing(fact.clone()), None)),
            (None, _) => Some((Difference::Unexpected(fact.clone()), line)),
        });
    }
    let nowhere = Order::default();
    for chain in keys(&expected.order, &found.order) {
        let [expected, found] = [expected, found].map(|service| service.order.get(chain).unwrap_or(&nowhere));
        if reordered(&expected.places, &found.places) {
            differences.push((Difference::Reordered(chain.clone()), found.line));
        }
    }
    differences
}

/// Returns whether `one` has no source-range check at all while the other has one.
fn lacks_check(one: &Service, other: &Service) -> bool {
    let of_check = |fact: &Fact| matches!(fact, Fact::RejectResponse(None) | Fact::SourceRange(_));
    !one.facts.keys().any(of_check) && other.facts.contains_key(&Fact::RejectResponse(None))
}

/// Returns whether `found` are the expected rules with some of them repeated.
fn is_repeated(expected: &[String], found: &[String]) -> bool {
    let count = |texts: &[String], text: &String| texts.iter().filter(|own| *own == text).count();
    found.iter().all(|text| expected.contains(text))
        && expected.iter().all(|text| count(found, text) >= count(expected, text))
}

fn changed(fact: Fact, expected: &str, found: &str) -> Difference {
    Difference::Changed { fact, expected: format!("`{expected}`"), found: format!("`{found}`") }
}

/// Returns the endpoint that a difference reports as missing or unexpected: differences in its own rules are not reported too.
fn endpoint_of(difference: &Difference) -> Option<(Policy, String)> {
    match difference {
        Difference::Missing(Fact::Endpoint(policy, endpoint))
        | Difference::Unexpected(Fact::Endpoint(policy, endpoint)) => Some((*policy, endpoint.clone())),
        _ => None,
    }
}

/// Compares endpoints and their shares. With a different number of endpoints every share differs: then only endpoints with an uneven share
/// are reported.
fn endpoints(differences: &mut Vec<At>, policy: Policy, expected: &Group, found: &Group) {
    let (found, repeated) = found.once(expected);
    differences.extend(repeated.into_iter().map(|(endpoint, times, expected)| {
        let line = found.shares.get(&endpoint).and_then(|shares| shares.line);
        (Difference::Repeated { fact: Fact::Endpoint(policy, endpoint), times, expected }, line)
    }));
    let same = expected.shares.keys().eq(found.shares.keys());
    let fair = if same { BTreeSet::new() } else { &expected.even() & &found.even() };
    for endpoint in keys(&expected.shares, &found.shares) {
        let (should, does) = (expected.shares.get(endpoint), found.shares.get(endpoint));
        let fact = || Fact::Endpoint(policy, endpoint.clone());
        differences.extend(match (should, does) {
            (Some(should), Some(does)) if expected.is_same(should, does) || fair.contains(endpoint.as_str()) => None,
            (Some(should), Some(does)) => {
                let fact = Fact::Share(policy, endpoint.clone());
                Some((Difference::Changed { fact, expected: shares(should), found: shares(does) }, does.line))
            }
            (_, None) => Some((Difference::Missing(fact()), None)),
            (None, Some(does)) => Some((Difference::Unexpected(fact()), does.line)),
        });
    }
}

/// Writes shares of traffic, one for each rule.
fn shares(shares: &Shares) -> String {
    let shares: Vec<String> = shares.each.iter().map(|share| format!("{:.7} %", share * 100.0)).collect();
    shares.join(" and ")
}

/// Compares a chain or set that belongs to no service.
fn part(subject: &Subject, expected: &Part, found: &Part) -> Vec<At> {
    let mut differences = Vec::new();
    for fact in keys(&expected.kinds, &found.kinds) {
        let kind = |part: &Part| {
            let default = || (*fact == Fact::Policy).then(|| "ACCEPT".to_owned());
            part.kinds.get(fact).cloned().or_else(default)
        };
        if let (Some(expected), Some(found)) = (kind(expected), kind(found))
            && expected != found
        {
            differences.push((Difference::Changed { fact: fact.clone(), expected, found }, None));
        }
    }
    differences.extend(rules(&expected.rules, &found.rules));
    if let Subject::Chain { name, .. } = subject
        && reordered(&expected.order.places, &found.order.places)
    {
        differences.push((Difference::Reordered(name.clone()), found.order.line));
    }
    differences
}

/// Finds rules of which one chain has more copies than the other, in the order of the chains.
fn rules(expected: &[(Fact, Line)], found: &[(Fact, Line)]) -> Vec<At> {
    let mut left: HashMap<&Fact, (usize, Vec<Line>)> = HashMap::new();
    expected.iter().for_each(|(fact, _)| left.entry(fact).or_default().0 += 1);
    found.iter().for_each(|(fact, line)| left.entry(fact).or_default().1.push(*line));
    let mut differences = Vec::new();
    for (fact, _) in expected.iter().chain(found) {
        let Some((should, lines)) = left.remove(fact) else { continue };
        differences.extend((lines.len()..should).map(|_| (Difference::Missing(fact.clone()), None)));
        // Of several equal rules, the last ones are the surplus.
        let first = lines.get(should).copied().flatten();
        differences.extend(match lines.len() {
            times if times <= should => None,
            1 => Some((Difference::Unexpected(fact.clone()), first)),
            times => Some((Difference::Repeated { fact: fact.clone(), times, expected: should }, first)),
        });
    }
    differences
}

/// Returns whether the common parts of two chains are in a different order.
fn reordered(expected: &[Place], found: &[Place]) -> bool {
    common(expected, found) != common(found, expected)
}

/// Keeps what the other chain contains too: facts where they first appear, stretches at their place.
fn common<'a>(places: &'a [Place], others: &'a [Place]) -> Vec<&'a Place> {
    let mut left: HashSet<&Place> = others.iter().collect();
    let mut common: Vec<&Place> = Vec::new();
    for place in places {
        let first = if matches!(place, Place::Fact(_)) { left.remove(place) } else { left.contains(place) };
        if first && common.last() != Some(&place) {
            common.push(place);
        }
    }
    common
}

/// Returns the keys of both maps, sorted and without duplicates.
fn keys<'a, K: Ord, V>(expected: &'a BTreeMap<K, V>, found: &'a BTreeMap<K, V>) -> BTreeSet<&'a K> {
    expected.keys().chain(found.keys()).collect()
}
