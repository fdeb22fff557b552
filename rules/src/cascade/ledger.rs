//! The account of what rules take, in their order.

use std::collections::HashMap;

use super::defect::{Defect, Kind};
use super::{Chance, Step};
use crate::iptables::Probability;
use crate::walk::Share;

/// A rule that leads to an endpoint, or one of several that it leads to.
pub(super) struct Entry<'a> {
    /// The rule's number in its chain, from 1.
    pub(super) rule: usize,
    /// The endpoint's chain; empty where there is none.
    pub(super) chain: &'a str,
    /// What the endpoint is called.
    pub(super) endpoint: String,
    /// When it is taken.
    pub(super) chance: Chance,
    /// Whether the endpoint's chain translates nothing, so that connections come back from it.
    pub(super) returns: bool,
}

/// What has been seen of a cascade.
pub(super) struct Ledger {
    /// The number of the first rule of each endpoint, and what its rules take.
    first: HashMap<String, (usize, Share)>,
    taken: Share,
    pub(super) left: Share,
    pub(super) steps: Vec<Step>,
    pub(super) defects: Vec<Defect>,
}

impl Ledger {
    /// Nothing is taken; there is room for so many rules.
    pub(super) fn new(rules: usize) -> Self {
        let (first, steps) = (HashMap::with_capacity(rules), Vec::with_capacity(rules));
        Self { first, taken: Share::ZERO, left: Share::ONE, steps, defects: Vec::new() }
    }

    /// How many different endpoints there are.
    pub(super) fn endpoints(&self) -> usize {
        self.first.len()
    }

    /// Takes a rule's share of what is left.
    pub(super) fn take(&mut self, entry: Entry<'_>) {
        let threshold = if entry.returns { 0 } else { entry.chance.threshold() };
        let share = self.left.times(threshold, entry.chance.draws());
        let left = self.left.times(Probability::ONE - threshold, entry.chance.draws());
        self.enter(entry, share);
        self.left = left;
    }

    /// Shares what is left out among endpoints by one draw; each entry is one of the numbers.
    pub(super) fn share_out<'a>(&mut self, entries: impl Iterator<Item = Entry<'a>>) {
        for entry in entries {
            let share = if entry.returns { Share::ZERO } else { self.drawn(entry.chance) };
            self.enter(entry, share);
        }
        self.left = Share::ZERO;
    }

    fn drawn(&self, chance: Chance) -> Share {
        match chance {
            Chance::Always => self.left,
            chance => self.left.times(chance.threshold(), chance.draws()),
        }
    }

    fn enter(&mut self, entry: Entry<'_>, share: Share) {
        let Entry { rule, chain, endpoint, chance, returns } = entry;
        let (first, together) = self.first.entry(endpoint.clone()).or_insert((rule, Share::ZERO));
        let is_again = *together != Share::ZERO || *first != rule;
        *together = together.plus(share);
        let (first, together) = (*first, *together);
        if is_again {
            self.found(rule, Kind::Duplicate { endpoint: endpoint.clone(), first, share: together });
        }
        if returns {
            self.found(rule, Kind::NoDestination { chain: chain.to_owned() });
        } else if chance == Chance::Condition {
            self.found(rule, Kind::Conditional { endpoint: endpoint.clone() });
        } else if self.left == Share::ZERO {
            self.found(rule, Kind::Unreachable { endpoint: endpoint.clone() });
        }
        self.taken = self.taken.plus(share);
        let (chain, cumulative) = (chain.to_owned(), self.taken);
        self.steps.push(Step { endpoint, chain, rule, chance, share, cumulative });
    }

    /// Notes what is wrong with a rule.
    pub(super) fn found(&mut self, rule: usize, kind: Kind) {
        self.defects.push(Defect { rule, kind });
    }

    /// All that is wrong, in the order of rules; what no rule takes stands last.
    pub(super) fn finish(&mut self) {
        self.defects.sort_by_key(|defect| defect.rule);
        if self.left != Share::ZERO {
            self.found(0, Kind::FallsThrough { share: self.left });
        }
    }
}
