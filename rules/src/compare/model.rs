//! What two rule sets are compared by.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::finding::{Fact, Subject};
use crate::chains::{FIVE_DIGITS, Policy, TEN_DIGITS, is_even};

/// The line of the text that was read, if one is known.
pub(super) type Line = Option<usize>;

/// What a rule set says in terms of services, and what is left of it. `K` is the key of a service port.
pub(super) trait Said<K: 'static> {
    /// What people call services.
    fn names(&self) -> &BTreeMap<K, String>;

    /// The services of which something is said.
    fn services(&self) -> impl Iterator<Item = &K>;

    /// What is said of one.
    fn service(&self, key: &K) -> Option<Cow<'_, Service>>;

    /// The chains and sets that belong to no service.
    fn subjects(&self) -> impl Iterator<Item = &Subject>;

    /// What is in one.
    fn part(&self, subject: &Subject) -> Option<Cow<'_, Part>>;
}

/// A rule set in terms of services, and what is left of it. `K` is the key of a service port.
#[derive(Debug)]
pub(super) struct Model<K> {
    pub(super) services: BTreeMap<K, Service>,
    /// What people call services.
    pub(super) names: BTreeMap<K, String>,
    /// Chains and sets that belong to no service.
    pub(super) parts: BTreeMap<Subject, Part>,
}

impl<K> Default for Model<K> {
    fn default() -> Self {
        Self { services: BTreeMap::new(), names: BTreeMap::new(), parts: BTreeMap::new() }
    }
}

impl<K: Ord + 'static> Said<K> for Model<K> {
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
    /// Notes a fact that a rule or element says of a service.
    pub(super) fn record(&mut self, service: K, fact: Fact, text: String, line: Line) {
        self.services.entry(service).or_default().record(fact, text, line);
    }
}

/// What rules say of a service port.
#[derive(Debug, Clone, Default)]
pub(super) struct Service {
    pub(super) facts: BTreeMap<Fact, Rules>,
    pub(super) groups: BTreeMap<Policy, Group>,
    /// The facts of every chain in the order of rules.
    pub(super) order: BTreeMap<String, Order>,
}

impl Service {
    /// Notes a fact that a rule or element says.
    pub(super) fn record(&mut self, fact: Fact, text: String, line: Line) {
        let stated = self.facts.entry(fact).or_default();
        stated.line = stated.line.or(line);
        stated.texts.push(text);
    }
}

/// The rules that say a fact.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Their texts, without what means nothing to a packet.
    pub(super) texts: Vec<String>,
    /// The place of the first of them.
    pub(super) line: Line,
}

/// The endpoints of one policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Each endpoint with what leads to it.
    pub(super) shares: BTreeMap<String, Shares>,
    /// The rules in order: to which endpoint they lead, and by which chance.
    pub(super) rules: Vec<(String, Chance)>,
}

/// What an endpoint gets.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    /// The shares of the rules that lead to it, in order.
    pub(super) each: Vec<f64>,
    /// The place of the first of these rules.
    pub(super) line: Line,
}

/// How a rule is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Chance {
    /// For so many of the 2^31 draws that come to it.
    Threshold(u32),
    /// As often as every other endpoint.
    Even,
}

impl Group {
    /// Notes that a rule leads to an endpoint, for a share of the group's traffic.
    pub(super) fn lead(&mut self, endpoint: &str, share: f64, chance: Chance, line: Line) {
        let shares = self.shares.entry(endpoint.to_owned()).or_default();
        shares.each.push(share);
        shares.line = shares.line.or(line);
        self.rules.push((endpoint.to_owned(), chance));
    }

    /// The group without rules that it has more often than expected; and which endpoints these lead to, how often they are there, and how
    /// often they should be.
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
                Chance::Even => own.each[0],
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

    /// The endpoints that get as much as every other, up to what is lost by the digits of probabilities: theirs, and all
    /// before them, are even ones. None if an endpoint has two rules.
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
            };
            left.take_while(|(to_come, (_, chance))| is_even(*to_come, *chance)).count()
        };
        let first = even(TEN_DIGITS).max(even(FIVE_DIGITS));
        self.rules[..first].iter().map(|(endpoint, _)| endpoint.as_str()).collect()
    }

    /// Whether shares are the same, up to what is lost where every probability is rounded to 31 bits.
    pub(super) fn is_same(&self, one: &Shares, other: &Shares) -> bool {
        let lost = self.shares.len() as f64 / f64::from(1_u32 << 31);
        let pairs = one.each.iter().zip(&other.each);
        one.each.len() == other.each.len() && pairs.into_iter().all(|(one, other)| (one - other).abs() <= lost)
    }
}

/// The places of a chain in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    pub(super) places: Vec<Place>,
    /// The place of the first of them.
    pub(super) line: Line,
}

impl Order {
    /// Adds a place at the end; stretches of the same kind are one.
    pub(super) fn push(&mut self, place: Place, line: Line) {
        self.line = self.line.or(line);
        let stretch = !matches!(place, Place::Fact(_));
        if !(stretch && self.places.last() == Some(&place)) {
            self.places.push(place);
        }
    }
}

/// What stands at a place of a chain: a fact, or a stretch of rules whose order means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Fact(Fact),
    /// Rules for endpoints that clients had before, in whatever order.
    Affinity,
    /// Rules that share traffic out: their order is in the shares.
    Balance,
    /// Rules of services, which kube-proxy lists in whatever order.
    Services,
    /// Jumps to all node ports, one for each address of the node, in whatever order.
    NodePorts,
}

/// A chain or set of no service.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// What it is: [`Fact::Policy`] and [`Fact::Kind`].
    pub(super) kinds: BTreeMap<Fact, String>,
    /// The rules or elements that are of no service, in order.
    pub(super) rules: Vec<(Fact, Line)>,
    /// All rules in order; those of services too. Elements have no order.
    pub(super) order: Order,
}
