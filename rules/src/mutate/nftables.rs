//! Mutations of nftables rules, and of elements of sets and maps.

use std::net::SocketAddr;

use super::adjacent_address::{another_length, neighbour, unused};
use super::{AnyEdit, Change, Edit, Holder, Operator, Place};
use crate::cluster::Family;
use crate::nftables::{
    Addresses, Condition, Element, Interfaces, Key, Mark, MarkChange, Name, Rule, Ruleset, Set, Statement, Table,
    Verdict, print_element, print_family, print_rule,
};

/// Returns all mutations of tables: of the elements of their sets and maps, then of their rules, each in order.
pub(super) fn changes(rules: &Ruleset) -> Vec<Change> {
    let mut changes = Vec::new();
    for (table_at, table) in rules.tables.iter().enumerate() {
        let place = |holder, name: &Name, at: usize| {
            let table = format!("{} {}", print_family(table.family), table.name);
            Place { table, holder, name: name.to_string(), number: at + 1 }
        };
        for (set_at, set) in table.sets.iter().enumerate() {
            for (at, element) in set.elements.iter().enumerate() {
                changes.extend(element_mutations(table, set, element).into_iter().map(|(operator, edit)| Change {
                    operator,
                    place: place(Holder::Set, &set.name, at),
                    was: print_element(element),
                    is: edit.instead().map(print_element),
                    edit: AnyEdit::Element([table_at, set_at], edit),
                }));
            }
        }
        for (chain_at, chain) in table.chains.iter().enumerate() {
            for (at, rule) in chain.rules.iter().enumerate() {
                let words = |rule: &Rule| print_rule(rule, table.family);
                changes.extend(rule_mutations(table, &chain.rules[at..]).into_iter().map(|(operator, edit)| Change {
                    operator,
                    place: place(Holder::Chain, &chain.name, at),
                    was: words(rule),
                    is: edit.instead().map(words),
                    edit: AnyEdit::Nftables([table_at, chain_at], edit),
                }));
            }
        }
    }
    changes
}

/// Returns all mutations of an element.
fn element_mutations(table: &Table, set: &Set, element: &Element) -> Vec<(Operator, Edit<Element>)> {
    let mut edits = vec![(Operator::DroppedElement, Edit::Remove)];
    let mut replace = |operator, other: Element| edits.push((operator, Edit::Replace(Box::new(other))));
    for (at, part) in element.key.iter().enumerate() {
        let (operator, other) = match part {
            Key::Address(address) => (Operator::WrongAddress, Key::Address(neighbour(*address))),
            Key::Port(port) => (Operator::WrongPort, Key::Port(shifted(*port))),
            Key::Addresses(_) | Key::Protocol(_) => continue,
        };
        let mut key = element.key.clone();
        key[at] = other;
        // A duplicate key would have two verdicts.
        if set.elements.iter().all(|one| one.key != key) {
            replace(operator, Element { key, ..element.clone() });
        }
    }
    for (operator, verdict) in element.verdict.iter().flat_map(|verdict| other_verdicts(table, verdict)) {
        replace(operator, Element { verdict: Some(verdict), ..element.clone() });
    }
    edits
}

/// Returns all mutations of the first of several consecutive rules.
fn rule_mutations(table: &Table, rules: &[Rule]) -> Vec<(Operator, Edit<Rule>)> {
    let Some(rule) = rules.first() else { return Vec::new() };
    let mut edits = vec![(removal(rule), Edit::Remove)];
    if rules.get(1).is_some_and(|next| next != rule) {
        edits.push((Operator::SwappedRules, Edit::SwapWithNext));
    }
    let mut replace = |operator, other: Rule| edits.push((operator, Edit::Replace(Box::new(other))));
    for (at, condition) in rule.conditions.iter().enumerate() {
        if !is_needed(rule, at) {
            let mut other = rule.clone();
            other.conditions.remove(at);
            replace(Operator::LostCondition, other);
        }
        for (operator, condition) in other_conditions(table.family, condition) {
            let mut other = rule.clone();
            other.conditions[at] = condition;
            replace(operator, other);
        }
    }
    for (at, statement) in rule.statements.iter().enumerate() {
        if at + 1 < rule.statements.len() {
            let mut other = rule.clone();
            other.statements.remove(at);
            let is_mark = matches!(statement, Statement::Mark(_));
            replace(if is_mark { Operator::LostMark } else { Operator::LostStatement }, other);
        }
        for (operator, statement) in other_statements(table, statement) {
            let mut other = rule.clone();
            other.statements[at] = statement;
            replace(operator, other);
        }
    }
    edits
}

/// Returns the name for removing a rule, which depends on the rule's effect.
fn removal(rule: &Rule) -> Operator {
    match rule.statements.last() {
        Some(Statement::Mark(_)) => Operator::LostMark,
        Some(Statement::Masquerade { .. }) => Operator::MissingMasquerade,
        Some(Statement::Reject(_)) => Operator::MissingReject,
        Some(Statement::Verdict(Verdict::Drop)) => Operator::MissingDrop,
        _ => Operator::DroppedRule,
    }
}

/// Returns whether nft accepts a rule only with this condition: translating a port requires a protocol.
fn is_needed(rule: &Rule, at: usize) -> bool {
    let says_protocol =
        |condition: &Condition| condition.as_protocol().is_some() || condition.as_destination_port().is_some();
    let translates = |statement: &Statement| matches!(statement, Statement::Dnat(_) | Statement::BalanceDnat(_));
    let others = rule.conditions.iter().enumerate().filter(|(other, _)| *other != at);
    rule.statements.iter().any(translates)
        && says_protocol(&rule.conditions[at])
        && !others.into_iter().any(|(_, condition)| says_protocol(condition))
}

fn other_conditions(family: Family, condition: &Condition) -> Vec<(Operator, Condition)> {
    match condition {
        Condition::Address { side, negated, value } => {
            let mut found = Vec::new();
            let with = |negated, value| Condition::Address { side: *side, negated, value };
            if *negated {
                found.push((Operator::LostNegation, with(false, value.clone())));
            }
            match value {
                Addresses::One(address) => {
                    let range = another_length((*address).into(), family).map(Addresses::Prefix);
                    found.extend(range.map(|range| (Operator::WrongMask, with(*negated, range))));
                    found.push((Operator::WrongAddress, with(*negated, Addresses::One(neighbour(*address)))));
                }
                Addresses::Prefix(range) => {
                    let other = another_length(*range, family).map(Addresses::Prefix);
                    found.extend(other.map(|range| (Operator::WrongMask, with(*negated, range))));
                }
                Addresses::Ranges(ranges) if ranges.len() > 1 => {
                    let others = Addresses::Ranges(ranges[1..].to_vec());
                    found.push((Operator::WrongAddress, with(*negated, others)));
                }
                Addresses::Ranges(_) | Addresses::Set(_) => {}
            }
            found
        }
        Condition::Ports { .. } => {
            let shift = |(protocol, port)| (Operator::WrongPort, Condition::destination_port(protocol, shifted(port)));
            condition.as_destination_port().map(shift).into_iter().collect()
        }
        Condition::Interfaces(Interfaces { output: false, by_name, negated: true, names }) if names.len() == 1 => {
            vec![(Operator::LostNegation, Condition::input(*by_name, false, names[0].clone()))]
        }
        Condition::Mark(Mark { negated: set, mask: bit, value: 0 }) => vec![
            (Operator::LostNegation, Condition::mark_bit(!set, *bit)),
            (Operator::WrongMark, Condition::mark_bit(*set, bit.rotate_left(1))),
        ],
        _ => Vec::new(),
    }
}

fn other_statements(table: &Table, statement: &Statement) -> Vec<(Operator, Statement)> {
    match statement {
        Statement::Verdict(verdict) => {
            let others = other_verdicts(table, verdict).into_iter();
            others.map(|(operator, verdict)| (operator, Statement::Verdict(verdict))).collect()
        }
        Statement::Balance(verdicts) => {
            let others = other_shares(verdicts).into_iter();
            others.map(|(operator, verdicts)| (operator, Statement::Balance(verdicts.into()))).collect()
        }
        Statement::BalanceDnat(addresses) => {
            let others = other_shares(addresses).into_iter().chain(addresses.first().into_iter().flat_map(|first| {
                let with = |other| [vec![other], addresses[1..].to_vec()].concat();
                other_destinations(*first).map(|(operator, other)| (operator, with(other)))
            }));
            others.map(|(operator, addresses)| (operator, Statement::BalanceDnat(addresses.into()))).collect()
        }
        Statement::Dnat(address) => {
            other_destinations(*address).map(|(operator, other)| (operator, Statement::Dnat(other))).into()
        }
        Statement::Mark(MarkChange::Set(bit)) => {
            vec![(Operator::WrongMark, Statement::Mark(MarkChange::Set(bit.rotate_left(1))))]
        }
        Statement::Mark(MarkChange::Flip(bit)) => {
            vec![(Operator::WrongMark, Statement::Mark(MarkChange::Flip(bit.rotate_left(1))))]
        }
        _ => Vec::new(),
    }
}

fn other_verdicts(table: &Table, verdict: &Verdict) -> Vec<(Operator, Verdict)> {
    let mut found = Vec::new();
    if let Verdict::Jump(chain) | Verdict::Goto(chain) = verdict {
        found.push((Operator::ReturnForJump, Verdict::Return));
        found.extend(sibling(table, chain).map(|other| {
            let other = other.clone();
            let is_jump = matches!(verdict, Verdict::Jump(_));
            (Operator::WrongChain, if is_jump { Verdict::Jump(other) } else { Verdict::Goto(other) })
        }));
    }
    found
}

/// Returns two variants of the items to choose from: the first instead of the last, so that it gets two shares; and the first only.
fn other_shares<T: Clone>(all: &[T]) -> Vec<(Operator, Vec<T>)> {
    let [first, .., _] = all else { return Vec::new() };
    let mut twice = all.to_vec();
    twice.truncate(all.len() - 1);
    twice.push(first.clone());
    let mut found = vec![(Operator::LostProbability, vec![first.clone(); all.len()])];
    if all.len() > 2 {
        found.insert(0, (Operator::WrongProbability, twice));
    }
    found
}

fn other_destinations(address: SocketAddr) -> [(Operator, SocketAddr); 2] {
    let gone = SocketAddr::new(unused(address.ip()), address.port());
    let beside = SocketAddr::new(address.ip(), shifted(address.port()));
    [(Operator::StaleEndpoint, gone), (Operator::WrongTargetPort, beside)]
}

/// Returns the next port; the previous one for the last.
fn shifted(port: u16) -> u16 {
    port.checked_add(1).unwrap_or(u16::MAX - 1)
}

/// Returns the next chain in the table whose name has the same prefix: `endpoint-`, `service-`.
fn sibling<'t>(table: &'t Table, chain: &str) -> Option<&'t Name> {
    let prefix = &chain[..chain.find('-')? + 1];
    let mut alike: Vec<&Name> =
        table.chains.iter().map(|chain| &chain.name).filter(|name| name.starts_with(prefix)).collect();
    let at = alike.iter().position(|name| ***name == *chain)?;
    alike.rotate_left(at);
    alike.get(1).copied()
}
