//! The model in which two rule sets are compared.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::finding::{Fact, Subject};
use crate::chains::{FIVE_DIGITS, Policy, TEN_DIGITS, is_even};

/// The line of the text, if known.
pub(super) type Line = Option<usize>;

/// What a rule set states about services, and its other rules. `K` is the key of a service port.
pub(super) trait ServiceRules<K: 'static> {
    /// The names of services.
    fn names(&self) -> &BTreeMap<K, String>;

    /// Returns the services with any facts.
    fn services(&self) -> impl Iterator<Item = &K>;

    /// Returns the facts about a service.
    fn service(&self, key: &K) -> Option<Cow<'_, Service>>;

    /// Returns the chains and sets that belong to no service.
    fn subjects(&self) -> impl Iterator<Item = &Subject>;

    /// Returns the content of such a chain or set.
    fn part(&self, subject: &Subject) -> Option<Cow<'_, Part>>;

    /// Returns whether the other rule set is known to have the same rules of a service, so that its facts need not be read.
    fn has_same_service(&self, _other: &Self, _key: &K) -> bool {
        false
    }

    /// Returns whether the other rule set is known to have the same rules in a chain or set that belongs to no service.
    fn has_same_part(&self, _other: &Self, _subject: &Subject) -> bool {
        false
    }
}

/// A rule set as facts about services, and its other rules. `K` is the key of a service port.
#[derive(Debug)]
pub(super) struct Model<K> {
    pub(super) services: BTreeMap<K, Service>,
    /// The names of services.
    pub(super) names: BTreeMap<K, String>,
    /// Chains and sets that belong to no service.
    pub(super) parts: BTreeMap<Subject, Part>,
}

impl<K> Default for Model<K> {
    fn default() -> Self {
        Self { services: BTreeMap::new(), names: BTreeMap::new(), parts: BTreeMap::new() }
    }
}

impl<K: Ord + 'static> ServiceRules<K> for Model<K> {
    fn names(&self) -> &BTreeMap<K, String> {
        &self.names
    }

    fn services(&self) -> impl Iterator<Item = &K> {
        self.services.keys()
    }

    fn service(&self, key: &K) -> Option<Cow<'_, Service>> {
        self.services.get(key).map(Cow::Borrowed)
    }

    fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.parts.keys()
    }

    fn part(&self, subject: &Subject) -> Option<Cow<'_, Part>> {
        self.parts.get(subject).map(Cow::Borrowed)
    }
}

impl<K: Ord> Model<K> {
    /// Records a fact that a rule or element states about a service.
    pub(super) fn record(&mut self, service: K, fact: Fact, text: String, line: Line) {
        self.services.entry(service).or_default().record(fact, text, line);
    }
}

/// Facts about a service port.
#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    pub(super) facts: BTreeMap<Fact, Rules>,
    pub(super) groups: BTreeMap<Policy, Group>,
    /// The facts of every chain, in the order of the rules.
    pub(super) order: BTreeMap<String, Order>,
}

impl Service {
    /// Records a fact that a rule or element states.
    pub(super) fn record(&mut self, fact: Fact, text: String, line: Line) {
        let stated = self.facts.entry(fact).or_default();
        stated.line = stated.line.or(line);
        stated.texts.push(text);
    }
}

/// The rules that state a fact.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Their texts, without comments and counters.
    pub(super) texts: Vec<String>,
    /// The line of the first of them.
    pub(super) line: Line,
}

/// The endpoints of one policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// The shares of each endpoint.
    pub(super) shares: BTreeMap<String, Shares>,
    /// The rules in order: the endpoint and the probability of each.
    pub(super) rules: Vec<(String, Chance)>,
}

/// The shares of an endpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    /// The share of each rule that leads to it, in order.
    pub(super) each: Vec<f64>,
    /// The line of the first of these rules.
    pub(super) line: Line,
}

/// The probability of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Chance {
    /// For this many of the 2^31 possible draws.
    Threshold(u32),
    /// The same as every other endpoint's.
    Even,
    /// For this many of the 2^32 draws of one random number, not the same as every other endpoint's.
    Drawn(u32),
}

impl Group {
    /// Records that a rule sends a share of the group's traffic to an endpoint.
    pub(super) fn lead(&mut self, endpoint: &str, share: f64, chance: Chance, line: Line) {
        let shares = self.shares.entry(endpoint.to_owned()).or_default();
        shares.each.push(share);
        shares.line = shares.line.or(line);
        self.rules.push((endpoint.to_owned(), chance));
    }

    /// Returns the group without surplus copies of rules, and the endpoints of these copies with the found and expected number.
    pub(super) fn once(&self, expected: &Self) -> (Cow<'_, Self>, Vec<(String, usize, usize)>) {
        if self.rules.len() <= expected.rules.len() {
            return (Cow::Borrowed(self), Vec::new());
        }
        let count = |group: &Self| {
            let mut counts: HashMap<(String, Chance), usize> = HashMap::new();
            group.rules.iter().for_each(|rule| *counts.entry(rule.clone()).or_default() += 1);
            counts
        };
        let (expected, mut left) = (count(expected), count(expected));
        let mut times = count(self);
        times.retain(|rule, times| expected.get(rule).is_some_and(|expected| *times > *expected));
        if times.is_empty() {
            return (Cow::Borrowed(self), Vec::new());
        }
        let (mut group, mut rest) = (Self::default(), 1.0);
        for rule in &self.rules {
            if times.contains_key(rule) {
                match left.get_mut(rule) {
                    Some(left) if *left > 0 => *left -= 1,
                    _ => continue,
                }
            }
            let (endpoint, chance) = rule;
            let own = &self.shares[endpoint];
            let share = match chance {
                Chance::Threshold(threshold) => rest * f64::from(*threshold) / f64::from(1_u32 << 31),
                Chance::Even | Chance::Drawn(_) => own.each[0],
            };
            rest -= share;
            group.lead(endpoint, share, *chance, own.line);
        }
        let mut repeated: Vec<(String, usize, usize)> = times
            .into_iter()
            .map(|(rule, times)| (expected[&rule], times, rule.0))
            .map(|(expected, times, endpoint)| (endpoint, times, expected))
            .collect();
        repeated.sort();
        (Cow::Owned(group), repeated)
    }

    /// Returns the endpoints with an even share, up to rounding: their probability and all before it are even. Empty if an endpoint has two
    /// rules.
    pub(super) fn even(&self) -> BTreeSet<&str> {
        let count = self.rules.len();
        if count != self.shares.len() {
            return BTreeSet::new();
        }
        let even = |digits| {
            let left = (1..=count).rev().zip(&self.rules);
            let is_even = |to_come, chance| match chance {
                Chance::Threshold(threshold) => is_even(threshold, to_come, digits),
                Chance::Even => true,
                Chance::Drawn(_) => false,
            };
            left.take_while(|(to_come, (_, chance))| is_even(*to_come, *chance)).count()
        };
        let first = even(TEN_DIGITS).max(even(FIVE_DIGITS));
        self.rules[..first].iter().map(|(endpoint, _)| endpoint.as_str()).collect()
    }

    /// Returns whether shares are the same, up to the rounding of every probability to 31 bits.
    pub(super) fn is_same(&self, one: &Shares, other: &Shares) -> bool {
        let lost = self.shares.len() as f64 / f64::from(1_u32 << 31);
        let pairs = one.each.iter().zip(&other.each);
        one.each.len() == other.each.len() && pairs.into_iter().all(|(one, other)| (one - other).abs() <= lost)
    }
}

/// The places of a chain, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    pub(super) places: Vec<Place>,
    /// The line of the first of them.
    pub(super) line: Line,
}

impl Order {
    /// Appends a place; adjacent stretches of the same kind are merged.
    pub(super) fn push(&mut self, place: Place, line: Line) {
        self.line = self.line.or(line);
        let stretch = !matches!(place, Place::Fact(_));
        if !(stretch && self.places.last() == Some(&place)) {
            self.places.push(place);
        }
    }
}

/// A place in a chain: a fact, or a stretch of rules whose order does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Fact(Fact),
    /// Affinity rules, in any order.
    Affinity,
    /// Balancing rules: the shares reflect their order.
    Balance,
    /// Rules of services, which kube-proxy lists in any order.
    Services,
    /// Jumps to the node ports chain, one for each address of the node, in any order.
    NodePorts,
}

/// A chain or set of no service.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Its properties: [`Fact::Policy`] and [`Fact::Kind`].
    pub(super) kinds: BTreeMap<Fact, String>,
    /// The rules or elements that belong to no service, in order.
    pub(super) rules: Vec<(Fact, Line)>,
    /// All rules in order, including those of services. Elements have no order.
    pub(super) order: Order,
}
