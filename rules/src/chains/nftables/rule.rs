//! What single rules and elements say.

use std::net::{IpAddr, SocketAddr};

use crate::chains::{Chance, Frontend, Key as Remembered, Masqueraded, Note};
use crate::cluster::{Family, Protocol};
use crate::digits;
use crate::nftables::{
    Addresses, Condition, Key, MarkChange, Name, Numgen, NumgenMode, Rule, Side, Statement, Verdict, print_rule,
};

/// The chain that marks packets for masquerading.
pub(super) const MASQUERADE: &str = "mark-for-masquerade";

/// Where rules share traffic out to.
pub(crate) enum Balance<'a> {
    /// Chains of endpoints.
    Chains(&'a [Name]),
    /// Endpoints themselves.
    Endpoints(Vec<String>),
}

/// What a rule shares out, if it asks for nothing but this protocol.
pub(crate) fn balance<'a>(rule: &'a Rule, protocol: &str) -> Option<Balance<'a>> {
    let of_protocol = match rule.conditions.as_slice() {
        [asked] => asked.as_protocol().is_some_and(|asked| asked.as_str() == protocol),
        _ => false,
    };
    let text = |address: &SocketAddr| digits::socket(*address).to_string();
    match rule.statements.as_slice() {
        [Statement::Balance(chains)] if rule.conditions.is_empty() && chains.is_even() => Some(Balance::Chains(chains)),
        [Statement::BalanceDnat(all)] if of_protocol && all.is_even() => {
            Some(Balance::Endpoints(all.iter().map(text).collect()))
        }
        [Statement::Dnat(one)] if of_protocol => Some(Balance::Endpoints(vec![text(one)])),
        _ => None,
    }
}

/// The text of a rule without its comment.
pub(crate) fn text(rule: &Rule, family: Family) -> String {
    print_rule(&Rule { comment: None, ..rule.clone() }, family)
}

/// Whether packets are marked for masquerading.
pub(crate) fn marks(statement: &Statement) -> bool {
    match statement {
        Statement::Verdict(Verdict::Jump(chain)) => **chain == *MASQUERADE,
        Statement::Mark(MarkChange::Set(_)) => true,
        _ => false,
    }
}

/// The sources that the rule of a firewall lets in.
pub(crate) fn source_ranges(rule: &Rule) -> Vec<String> {
    match rule.conditions.as_slice() {
        [Condition::Address { side: Side::Source, negated: true, value }] => match value {
            Addresses::One(address) => vec![address.to_string()],
            Addresses::Prefix(prefix) => vec![crate::nftables::AddressRange::from(*prefix).to_string()],
            Addresses::Ranges(ranges) => ranges.iter().map(ToString::to_string).collect(),
            Addresses::Set(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Whose packets a rule matches.
pub(crate) fn masqueraded(rule: &Rule) -> Option<Masqueraded> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side: Side::Source, negated, value: Addresses::One(ip) } => {
            Some(Masqueraded::of(*negated, *ip))
        }
        _ => None,
    })
}

/// The single address of a side that a rule asks for.
pub(crate) fn address(rule: &Rule, asked: Side) -> Option<IpAddr> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side, negated: false, value: Addresses::One(ip) } if *side == asked => Some(*ip),
        _ => None,
    })
}

/// The single address and port that a rule asks for.
pub(crate) fn frontend(rule: &Rule) -> Option<Frontend> {
    let (protocol, port) = rule.conditions.iter().find_map(Condition::as_destination_port)?;
    Some(Frontend { address: Some(address(rule, Side::Destination)?), port, protocol })
}

/// The address and port of an element's key: `10.0.0.1 . tcp . 80`, or `tcp . 30080` of node ports.
pub(crate) fn frontend_of_key(key: &[Key]) -> Option<Frontend> {
    match *key {
        [Key::Address(ip), Key::Protocol(protocol), Key::Port(port)] => {
            Some(Frontend { address: Some(ip), port, protocol })
        }
        [Key::Protocol(protocol), Key::Port(port)] => Some(Frontend { address: None, port, protocol }),
        _ => None,
    }
}

/// The chance of one of the values of a statement's `numgen`; nothing if it is sure.
pub(super) fn drawn(statement: &Statement, choice: usize) -> Option<Chance> {
    match statement {
        Statement::Balance(chains) => chance(chains, choice),
        Statement::BalanceDnat(addresses) => chance(addresses, choice),
        _ => None,
    }
}

fn chance<T>(numgen: &Numgen<T>, choice: usize) -> Option<Chance> {
    let is_sure = numgen.len() == 1 && numgen.without_value() == 0;
    let draws = numgen.draws(choice).filter(|_| !is_sure)?;
    Some(match numgen.mode {
        NumgenMode::Random => Chance::Drawn { draws, of: numgen.modulus },
        NumgenMode::Incremental => Chance::Nth { part: draws, every: numgen.modulus },
    })
}

/// How many of the numbers of a statement's `numgen` have no value, and how many there are.
pub(super) fn gap(statement: &Statement) -> Option<(u32, u32)> {
    let (lacking, of) = match statement {
        Statement::Balance(chains) => (chains.without_value(), chains.modulus),
        Statement::BalanceDnat(addresses) => (addresses.without_value(), addresses.modulus),
        _ => return None,
    };
    (lacking > 0).then_some((lacking, of))
}

/// The endpoints that a statement translates to.
pub(super) fn destinations_of(statement: &Statement) -> Vec<SocketAddr> {
    match statement {
        Statement::Dnat(address) => vec![*address],
        Statement::BalanceDnat(addresses) => addresses.to_vec(),
        _ => Vec::new(),
    }
}

/// The side of a packet and the set by which a rule knows clients again.
pub(super) fn recalled(rule: &Rule) -> Option<(Side, &str)> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side, negated: false, value: Addresses::Set(set) } => Some((*side, &**set)),
        _ => None,
    })
}

/// The sets that a rule notes clients in.
pub(super) fn notes(rule: &Rule) -> Vec<Note<'_>> {
    let noted = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Remember(side, set) => Some((*side == Side::Destination, &**set)),
        _ => None,
    });
    let is_plain = rule.conditions.is_empty();
    noted.map(|(destination, list)| Note { list, key: Remembered { destination, mask: None }, is_plain }).collect()
}

/// The protocol that a rule asks for.
pub(super) fn protocol(rule: &Rule) -> Option<Protocol> {
    rule.conditions.iter().find_map(Condition::as_protocol)
}
