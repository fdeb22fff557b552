//! The difference of two rule sets, in words of services and endpoints.
//!
//! Both rule sets are read into the same terms: what leads to a service, which endpoints get which share
//! of its traffic, what is masqueraded or refused. What is in neither service's language is compared as rules. Comments,
//! counters, the order of services in a chain and that of endpoints in a group mean nothing to a packet, and so nothing
//! here; comments only give services their names.

mod finding;
mod model;
mod others;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub use self::finding::{Address, Difference, Fact, Finding, Policy, Subject};
use self::model::{Chain, Group, Model, Place, Service};
pub use self::others::{Others, leave_out_others};
use self::read::read;
use crate::iptables::{ChainHash, RuleSet};

/// What is different in the rules that were found from those that should be there, sorted by service; nothing where
/// both do the same.
///
/// ```
/// use svclab_rules::cluster::Family;
/// use svclab_rules::compare::compare;
/// use svclab_rules::iptables::parse;
///
/// let [expected, found] = ["", "-A INPUT -p tcp --dport 22 -j DROP\n"].map(|rule| {
///     parse(&format!("*filter\n:INPUT ACCEPT\n{rule}COMMIT\n"), Family::Ipv4).expect("rules").rules
/// });
/// let findings: Vec<String> = compare(&expected, &found).iter().map(ToString::to_string).collect();
/// assert_eq!(findings, ["chain INPUT of filter: rule `-A INPUT -p tcp -m tcp --dport 22 -j DROP` is unexpected"]);
/// ```
pub fn compare(expected: &RuleSet, found: &RuleSet) -> Vec<Finding> {
    let (expected, found) = (read(expected), read(found));
    let mut findings = Vec::new();
    services(&mut findings, &expected, &found);
    chains(&mut findings, &expected, &found);
    findings
}

fn services(findings: &mut Vec<Finding>, expected: &Model, found: &Model) {
    let hashes: BTreeSet<&ChainHash> = expected.services.keys().chain(found.services.keys()).collect();
    let mut of_services = Vec::new();
    for hash in hashes {
        let name = expected.names.get(hash).or_else(|| found.names.get(hash));
        let subject = Subject::Service(name.cloned().unwrap_or_else(|| hash.to_string()));
        let differences = match (expected.services.get(hash), found.services.get(hash)) {
            (Some(expected), Some(found)) => service(expected, found),
            (Some(_), None) => vec![Difference::Missing(Fact::Whole)],
            (None, _) => vec![Difference::Unexpected(Fact::Whole)],
        };
        of_services.extend(differences.into_iter().map(|difference| Finding { subject: subject.clone(), difference }));
    }
    of_services.sort_by(|a, b| a.subject.cmp(&b.subject));
    findings.append(&mut of_services);
}

fn service(expected: &Service, found: &Service) -> Vec<Difference> {
    let mut differences = Vec::new();
    let nobody = Group::default();
    for policy in keys(&expected.groups, &found.groups) {
        let [expected, found] = [expected, found].map(|service| service.groups.get(policy).unwrap_or(&nobody));
        endpoints(&mut differences, *policy, expected, found);
    }
    let told: BTreeSet<(Option<Policy>, String)> = differences.iter().filter_map(endpoint_told).collect();
    let untold = |fact: &Fact| match fact {
        Fact::Affinity(policy, endpoint) => !told.contains(&(Some(*policy), endpoint.clone())),
        Fact::Hairpin(endpoint) | Fact::Translation(endpoint) => !told.iter().any(|(_, other)| other == endpoint),
        _ => true,
    };
    let facts = keys(&expected.facts, &found.facts);
    for fact in facts.into_iter().filter(|fact| untold(fact)) {
        let texts = |service: &Service| service.facts.get(fact).map(|rules| rules.join(", "));
        differences.extend(match (texts(expected), texts(found)) {
            (Some(expected), Some(found)) if expected == found => None,
            (Some(expected), Some(found)) => Some(changed(fact.clone(), &expected, &found)),
            (Some(_), None) => Some(Difference::Missing(fact.clone())),
            (None, _) => Some(Difference::Unexpected(fact.clone())),
        });
    }
    for chain in keys(&expected.order, &found.order) {
        let places = |service: &Service| service.order.get(chain).cloned().unwrap_or_default();
        if reordered(&places(expected), &places(found)) {
            differences.push(Difference::Reordered(chain.clone()));
        }
    }
    differences
}

fn changed(fact: Fact, expected: &str, found: &str) -> Difference {
    Difference::Changed { fact, expected: format!("`{expected}`"), found: format!("`{found}`") }
}

/// The endpoint that a difference says to be missing or unexpected: what its own rules say need not be told too.
fn endpoint_told(difference: &Difference) -> Option<(Option<Policy>, String)> {
    match difference {
        Difference::Missing(Fact::Endpoint(policy, endpoint))
        | Difference::Unexpected(Fact::Endpoint(policy, endpoint)) => Some((Some(*policy), endpoint.clone())),
        _ => None,
    }
}

/// Which endpoints there are, and what they get. Another number of endpoints gives each another share: then, only those
/// are told that get more or less than their fair one.
fn endpoints(differences: &mut Vec<Difference>, policy: Policy, expected: &Group, found: &Group) {
    let same = expected.shares.keys().eq(found.shares.keys());
    let fair = if same { BTreeSet::new() } else { &expected.even() & &found.even() };
    for endpoint in keys(&expected.shares, &found.shares) {
        let (Some(should), Some(does)) = (expected.shares.get(endpoint), found.shares.get(endpoint)) else {
            let fact = Fact::Endpoint(policy, endpoint.clone());
            let missing = expected.shares.contains_key(endpoint);
            differences.push(if missing { Difference::Missing(fact) } else { Difference::Unexpected(fact) });
            continue;
        };
        if !expected.is_same(should, does) && !fair.contains(endpoint.as_str()) {
            let fact = Fact::Share(policy, endpoint.clone());
            differences.push(Difference::Changed { fact, expected: shares(should), found: shares(does) });
        }
    }
}

/// Shares of the traffic as text, one for each rule.
fn shares(shares: &[f64]) -> String {
    let shares: Vec<String> = shares.iter().map(|share| format!("{:.7} %", share * 100.0)).collect();
    shares.join(" and ")
}

fn chains(findings: &mut Vec<Finding>, expected: &Model, found: &Model) {
    let none = Chain::default();
    for key in keys(&expected.chains, &found.chains) {
        let subject = Subject::Chain(key.0, key.1.clone());
        let mut tell = |difference| findings.push(Finding { subject: subject.clone(), difference });
        let (should, is) = (expected.chains.get(key), found.chains.get(key));
        let empty = |chain: Option<&Chain>| chain.is_none_or(|chain| chain.order.is_empty());
        match (should, is) {
            (Some(_), None) if empty(should) => tell(Difference::Missing(Fact::Whole)),
            (None, Some(_)) if empty(is) => tell(Difference::Unexpected(Fact::Whole)),
            _ => {}
        }
        let (should, is) = (should.unwrap_or(&none), is.unwrap_or(&none));
        if should.policy != is.policy {
            let word = |chain: &Chain| chain.policy.unwrap_or("ACCEPT").to_owned();
            tell(Difference::Changed { fact: Fact::Policy, expected: word(should), found: word(is) });
        }
        rules(&should.rules, &is.rules).into_iter().for_each(&mut tell);
        if reordered(&should.order, &is.order) {
            tell(Difference::Reordered(key.1.clone()));
        }
    }
}

/// Rules that one of two chains has more often than the other, in the order of the chains.
fn rules(expected: &[Fact], found: &[Fact]) -> Vec<Difference> {
    let mut surplus: HashMap<&Fact, isize> = HashMap::new();
    found.iter().for_each(|fact| *surplus.entry(fact).or_default() += 1);
    expected.iter().for_each(|fact| *surplus.entry(fact).or_default() -= 1);
    let mut differences = Vec::new();
    for fact in expected.iter().chain(found) {
        match surplus.remove(fact) {
            Some(less @ ..0) => differences.extend((less..0).map(|_| Difference::Missing(fact.clone()))),
            Some(more) => differences.extend((0..more).map(|_| Difference::Unexpected(fact.clone()))),
            None => {}
        }
    }
    differences
}

/// Whether what two chains have in common stands in another order.
fn reordered(expected: &[Place], found: &[Place]) -> bool {
    common(expected, found) != common(found, expected)
}

/// What stands in another chain too: facts where they come first, stretches where they are.
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

/// The keys of both maps, each once, sorted.
fn keys<'a, K: Ord, V>(expected: &'a BTreeMap<K, V>, found: &'a BTreeMap<K, V>) -> BTreeSet<&'a K> {
    expected.keys().chain(found.keys()).collect()
}
