//! Compares the rules' packet counters with what receivers got.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::Tally;
use crate::text::grouped;

/// The connections that rules have translated, according to their counters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Translations {
    /// Translations to destinations with a rule of their own.
    exact: BTreeMap<SocketAddr, u64>,
    /// Translations by rules with several destinations, which a counter does not distinguish.
    shared: BTreeMap<Destinations, u64>,
    /// Translations in each namespace.
    by_place: BTreeMap<String, u64>,
}

/// The destinations that a single rule translates to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Destinations {
    /// First and last address; `None` if the rule names none, such as REDIRECT.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port; `None` if the packet keeps its own.
    pub ports: Option<(u16, u16)>,
}

impl From<SocketAddr> for Destinations {
    fn from(at: SocketAddr) -> Self {
        Self { addresses: Some((at.ip(), at.ip())), ports: Some((at.port(), at.port())) }
    }
}

impl Destinations {
    /// The only destination, if there is only one.
    fn only(&self) -> Option<SocketAddr> {
        let ((address, last), (port, highest)) = (self.addresses?, self.ports?);
        ((address, port) == (last, highest)).then(|| SocketAddr::new(address, port))
    }

    /// Whether these destinations include an address and port.
    fn may_be(&self, at: &SocketAddr) -> bool {
        self.addresses.is_none_or(|(first, last)| (first..=last).contains(&at.ip()))
            && self.ports.is_none_or(|(first, last)| (first..=last).contains(&at.port()))
    }
}

/// A destination for which the rules' counters and the receiver disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement {
    /// The destination.
    pub at: SocketAddr,
    /// Connections that rules translated to it.
    pub translated: u64,
    /// Flows delivered there.
    pub delivered: u64,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, translated, delivered) = (self.at, grouped(self.translated), grouped(self.delivered));
        write!(f, "rules translated {translated} flows to {at}, but {delivered} arrived there")
    }
}

impl Translations {
    /// Adds the connections that a rule in a namespace has translated.
    pub fn add(&mut self, place: &str, to: impl Into<Destinations>, connections: u64) {
        let to = to.into();
        *self.by_place.entry(place.to_owned()).or_default() += connections;
        match to.only() {
            Some(at) => *self.exact.entry(at).or_default() += connections,
            None => *self.shared.entry(to).or_default() += connections,
        }
    }

    /// Translations to each destination that has a rule of its own.
    pub(crate) fn by_destination(&self) -> &BTreeMap<SocketAddr, u64> {
        &self.exact
    }

    /// Translations since an earlier reading.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            exact: since(&self.exact, &earlier.exact),
            shared: since(&self.shared, &earlier.shared),
            by_place: since(&self.by_place, &earlier.by_place),
        }
    }

    /// Removes one destination.
    #[must_use]
    pub fn without(mut self, destination: SocketAddr) -> Self {
        self.exact.remove(&destination);
        self
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        plus(&mut self.exact, other.exact);
        plus(&mut self.shared, other.shared);
        plus(&mut self.by_place, other.by_place);
        self
    }

    /// Whether the counters give a number for this destination.
    pub(super) fn counts_for(&self, at: &SocketAddr) -> bool {
        self.exact.contains_key(at) && !self.shared.iter().any(|(to, connections)| *connections > 0 && to.may_be(at))
    }

    /// The destinations for which rules and receivers disagree on the number of flows. Rules count a flow each time it is sent, so in total
    /// they may exceed the receivers by the number of resent flows.
    ///
    /// Not compared are destinations that no rule translates to, destinations of rules that received nothing (the packets were translated
    /// again), and destinations that rules with several destinations have also used.
    pub(super) fn disagreements(&self, tally: &Tally) -> Vec<Disagreement> {
        let counted = self.exact.iter().filter(|(at, _)| self.counts_for(at));
        let each = counted.filter_map(|(at, translated)| {
            let (at, translated, delivered) = (*at, *translated, *tally.delivered.get(at)?);
            Some(Disagreement { at, translated, delivered })
        });
        let differing: Vec<Disagreement> = each.filter(|one| one.translated != one.delivered).collect();
        let more = |one: &Disagreement| one.translated.checked_sub(one.delivered);
        let is_of_repeats = differing.iter().map(more).sum::<Option<u64>>() == Some(tally.resent);
        if is_of_repeats { Vec::new() } else { differing }
    }

    /// Whether flows may have been translated more than once on their path: a namespace translates each connection only once, so this takes
    /// a second namespace that translates.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.by_place.values().filter(|connections| **connections > 0).count() > 1
    }
}

fn since<K: Ord + Clone>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let before = |key| earlier.get(key).copied().unwrap_or_default();
    now.iter().map(|(key, count)| (key.clone(), count.saturating_sub(before(key)))).collect()
}

fn plus<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    more.into_iter().for_each(|(key, count)| *counts.entry(key).or_default() += count);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<SocketAddr, u64> {
        counts.iter().map(|(at, count)| (at.parse().unwrap(), *count)).collect()
    }

    fn translations(place: &str, counts: &[(&str, u64)]) -> Translations {
        let mut all = Translations::default();
        counts.iter().for_each(|(at, count)| all.add(place, at.parse::<SocketAddr>().unwrap(), *count));
        all
    }

    #[test]
    fn rules_and_receivers_agree_or_differ() {
        let before = translations("node/a", &[("10.0.0.1:80", 7), ("10.0.0.2:80", 7)]);
        let after = translations("node/a", &[("10.0.0.1:80", 10), ("10.0.0.2:80", 7), ("10.0.0.3:80", 2)]);
        let newly = after.since(&before);
        assert_eq!(newly.by_destination(), &counts(&[("10.0.0.1:80", 3), ("10.0.0.2:80", 0), ("10.0.0.3:80", 2)]));
        let disagreements = |delivered, resent| {
            let tally = Tally { delivered: counts(delivered), resent, ..Tally::default() };
            newly.disagreements(&tally).iter().map(|one| (one.translated, one.delivered)).collect::<Vec<_>>()
        };
        let arrived = &[("10.0.0.1:80", 3), ("10.0.0.3:80", 2)];
        assert_eq!(disagreements(arrived, 0), []);
        let lost = disagreements(&[("10.0.0.1:80", 2), ("10.0.0.2:80", 1), ("10.0.0.4:80", 1)], 0);
        assert_eq!(lost, [(3, 2), (0, 1)], "no rule leads to the last, and nothing stayed at the third");
        assert_eq!(disagreements(&[("10.0.0.1:80", 2), ("10.0.0.3:80", 1)], 2), [], "each counted twice");
        assert_eq!(disagreements(&[("10.0.0.1:80", 2), ("10.0.0.3:80", 1)], 1), [(3, 2), (2, 1)]);
        assert_eq!(disagreements(&[("10.0.0.1:80", 4), ("10.0.0.3:80", 1)], 0), [(3, 4), (2, 1)]);
    }

    #[test]
    fn destinations_of_rules_with_several_are_not_compared_where_these_took_flows() {
        let [first, last]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let several = Destinations { addresses: Some((first, last)), ports: None };
        let disagreements = |connections| {
            let mut all = translations("node/a", &[("10.0.0.1:80", 3), ("10.0.0.2:80", 3), ("10.0.0.3:80", 3)]);
            all.add("node/a", several.clone(), connections);
            let delivered = counts(&[("10.0.0.1:80", 4), ("10.0.0.2:80", 3), ("10.0.0.3:80", 4)]);
            let found = all.disagreements(&Tally { delivered, ..Tally::default() });
            found.iter().map(|one| one.at.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(disagreements(1), ["10.0.0.3:80"]);
        assert_eq!(disagreements(0), ["10.0.0.1:80", "10.0.0.3:80"], "it took none");
    }

    #[test]
    fn what_a_machine_redirects_to_itself_may_be_any_address_with_that_port() {
        let redirected = Destinations { addresses: None, ports: Some((8080, 8081)) };
        for (at, may_be) in [("10.0.0.1:8080", true), ("[fd00::1]:8081", true), ("10.0.0.1:8082", false)] {
            assert_eq!(redirected.may_be(&at.parse().unwrap()), may_be, "{at}");
        }
    }
}
