//! Mutations of iptables rules.

use super::adjacent_address::{another_length, neighbour, unused};
use super::{AnyEdit, Change, Edit, Holder, Operator, Place};
use crate::cluster::Family;
use crate::iptables::{
    Masked, Match, Negatable, Network, PortRange, Probability, Rule, RuleSet, Statistic, Table, Target, print_rule,
};

/// Returns all mutations of a rule set, in the order of its rules.
pub(super) fn changes(rules: &RuleSet) -> Vec<Change> {
    let mut changes = Vec::new();
    for (table_at, table) in rules.tables.iter().enumerate() {
        for (chain_at, chain) in table.chains.iter().enumerate() {
            let words = |rule: &Rule| print_rule(rules.family, &chain.name, rule).trim_end().to_owned();
            // Most changes of a rule that only counts do not affect packets.
            for (at, rule) in chain.rules.iter().enumerate().filter(|(at, _)| !chain.only_counts(*at)) {
                let found = edits(rules.family, table, &chain.rules[at..]);
                changes.extend(found.into_iter().map(|(operator, edit)| Change {
                    operator,
                    place: Place {
                        table: table.name.to_string(),
                        holder: Holder::Chain,
                        name: chain.name.to_string(),
                        number: at + 1,
                    },
                    was: words(rule),
                    is: edit.instead().map(words),
                    edit: AnyEdit::Iptables([table_at, chain_at], edit),
                }));
            }
        }
    }
    changes
}

/// Returns all mutations of the first of several consecutive rules.
fn edits(family: Family, table: &Table, rules: &[Rule]) -> Vec<(Operator, Edit<Rule>)> {
    let mut edits = Vec::new();
    let Some(rule) = rules.first() else { return edits };
    edits.push((removal(rule), Edit::Remove));
    if rules.get(1).is_some_and(|next| next != rule) {
        edits.push((Operator::SwappedRules, Edit::SwapWithNext));
    }
    let mut replaced = Replacements { rule, found: Vec::new() };
    replaced.addresses(family);
    replaced.interfaces();
    replaced.matches();
    replaced.target(table);
    edits.extend(replaced.found);
    edits
}

/// Returns the operator that removes a rule, named by the rule's effect.
fn removal(rule: &Rule) -> Operator {
    match rule.target {
        Some(Target::Mark(_)) => Operator::LostMark,
        Some(Target::Masquerade { .. }) => Operator::MissingMasquerade,
        Some(Target::Reject(_)) => Operator::MissingReject,
        Some(Target::Drop) => Operator::MissingDrop,
        _ => Operator::DroppedRule,
    }
}

/// Variants of a rule that differ in a single item.
struct Replacements<'a> {
    rule: &'a Rule,
    found: Vec<(Operator, Edit<Rule>)>,
}

impl Replacements<'_> {
    fn add(&mut self, operator: Operator, change: impl FnOnce(&mut Rule)) {
        let mut rule = self.rule.clone();
        change(&mut rule);
        if rule != *self.rule {
            self.found.push((operator, Edit::Replace(Box::new(rule))));
        }
    }

    /// `-s` and `-d`.
    fn addresses(&mut self, family: Family) {
        type Side = fn(&mut Rule) -> &mut Option<Negatable<Network>>;
        let sides: [(Side, &Option<Negatable<Network>>); 2] =
            [(|rule| &mut rule.source, &self.rule.source), (|rule| &mut rule.destination, &self.rule.destination)];
        for (side, present) in sides {
            let Some(Negatable { negated, value: Network::Prefix(range) }) = present else { continue };
            let (negated, range) = (*negated, *range);
            if negated {
                self.add(Operator::LostNegation, |rule| *side(rule) = Some(Negatable::is(Network::Prefix(range))));
            }
            self.add(Operator::LostCondition, |rule| *side(rule) = None);
            if let Some(other) = another_length(range, family) {
                let value = Network::range(other);
                self.add(Operator::WrongMask, |rule| *side(rule) = Some(Negatable { negated, value }));
            }
            if range.prefix_len() == family.bits() {
                let value = Network::host(neighbour(range.addr()));
                self.add(Operator::WrongAddress, |rule| *side(rule) = Some(Negatable { negated, value }));
            }
        }
    }

    /// `-i` and `-o`.
    fn interfaces(&mut self) {
        if self.rule.in_interface.is_some() {
            self.add(Operator::LostCondition, |rule| rule.in_interface = None);
        }
        if self.rule.out_interface.is_some() {
            self.add(Operator::LostCondition, |rule| rule.out_interface = None);
        }
    }

    /// `-m`.
    fn matches(&mut self) {
        for (at, found) in self.rule.matches.iter().enumerate() {
            let lost = match found {
                // A match that only requires a header repeats `-p`.
                Match::Comment(_) | Match::Nfacct(_) => None,
                Match::Ports(ports)
                    if ports.source.is_none() && ports.destination.is_none() && ports.flags.is_none() =>
                {
                    None
                }
                Match::Statistic(_) => Some(Operator::LostProbability),
                _ => Some(Operator::LostCondition),
            };
            if let Some(operator) = lost {
                self.add(operator, |rule| drop(rule.matches.remove(at)));
            }
            if let Some(other) = without_negation(found) {
                self.add(Operator::LostNegation, |rule| rule.matches[at] = other);
            }
            match found {
                Match::Ports(ports) => {
                    if let Some(Negatable { negated, value }) = ports.destination {
                        let destination = Some(Negatable { negated, value: shifted(value) });
                        let ports = crate::iptables::Ports { destination, ..ports.clone() };
                        self.add(Operator::WrongPort, |rule| rule.matches[at] = Match::Ports(ports));
                    }
                }
                Match::Statistic(Statistic::Random(Negatable { negated, value })) => {
                    if let Some(value) = Probability::from_threshold(value.threshold() / 2) {
                        let other = Match::Statistic(Statistic::Random(Negatable { negated: *negated, value }));
                        self.add(Operator::WrongProbability, |rule| rule.matches[at] = other);
                    }
                }
                Match::Mark(Negatable { negated, value }) => {
                    let other = Match::Mark(Negatable { negated: *negated, value: other_bit(*value) });
                    self.add(Operator::WrongMark, |rule| rule.matches[at] = other);
                }
                _ => {}
            }
        }
    }

    /// `-j`.
    fn target(&mut self, table: &Table) {
        match &self.rule.target {
            Some(Target::Jump(chain) | Target::Goto(chain)) => {
                self.add(Operator::ReturnForJump, |rule| rule.target = Some(Target::Return));
                if let Some(other) = sibling(table, chain) {
                    self.add(Operator::WrongChain, |rule| rule.target = Some(Target::Jump(other.into())));
                }
            }
            Some(Target::Mark(mark)) => {
                let other = other_bit(*mark);
                self.add(Operator::WrongMark, |rule| rule.target = Some(Target::Mark(other)));
            }
            Some(Target::Dnat(nat)) => {
                if let Some((first, _)) = nat.addresses {
                    let gone = unused(first);
                    let nat = crate::iptables::Nat { addresses: Some((gone, gone)), ..nat.clone() };
                    self.add(Operator::StaleEndpoint, |rule| rule.target = Some(Target::Dnat(nat)));
                }
                if let Some(ports) = nat.ports {
                    let nat = crate::iptables::Nat { ports: Some(shifted(ports)), ..nat.clone() };
                    self.add(Operator::WrongTargetPort, |rule| rule.target = Some(Target::Dnat(nat)));
                }
            }
            _ => {}
        }
    }
}

/// Returns the match with its negation removed.
fn without_negation(found: &Match) -> Option<Match> {
    let mut other = found.clone();
    std::mem::take(other.negation()?).then_some(other)
}

/// Returns the next port or ports; the previous ones at the end of the range.
fn shifted(ports: PortRange) -> PortRange {
    let PortRange { first, last } = ports;
    if last == u16::MAX {
        PortRange { first: first - 1, last: last - 1 }
    } else {
        PortRange { first: first + 1, last: last + 1 }
    }
}

/// Returns the mark with all bits shifted left by one.
fn other_bit(mark: Masked) -> Masked {
    Masked { value: mark.value.rotate_left(1), mask: mark.mask.rotate_left(1) }
}

/// Returns the next chain in the table whose name has the same prefix: `KUBE-SEP-`, `KUBE-SVC-`.
fn sibling<'t>(table: &'t Table, chain: &str) -> Option<&'t str> {
    let prefix = &chain[..chain.rfind('-')? + 1];
    let mut alike =
        table.chains.iter().map(|chain| &*chain.name).filter(|name| name.starts_with(prefix)).collect::<Vec<_>>();
    let at = alike.iter().position(|name| *name == chain)?;
    alike.rotate_left(at);
    alike.get(1).copied()
}
