//! Reading of single rules and elements.

use std::net::{IpAddr, SocketAddr};

use crate::chains::{Chance, Frontend, Key as Remembered, Masqueraded, Note};
use crate::cluster::{Family, Protocol};
use crate::digits;
use crate::nftables::{
    Addresses, Condition, Key, MarkChange, Name, Numgen, NumgenMode, Rule, Side, Statement, Verdict, print_rule,
};

/// The chain that marks packets for masquerading.
pub(super) const MASQUERADE: &str = "mark-for-masquerade";

/// The targets of a balancing rule.
pub(crate) enum Balance<'a> {
    /// Chains of endpoints.
    Chains(&'a [Name]),
    /// Endpoints themselves.
    Endpoints(Vec<String>),
}

/// Returns the targets of a balancing rule that matches nothing but this protocol.
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

/// Returns whether a statement marks packets for masquerading.
pub(crate) fn marks(statement: &Statement) -> bool {
    match statement {
        Statement::Verdict(Verdict::Jump(chain)) => **chain == *MASQUERADE,
        Statement::Mark(MarkChange::Set(_)) => true,
        _ => false,
    }
}

/// Returns the sources that a firewall rule accepts.
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

/// Returns the sources that a rule matches.
pub(crate) fn masqueraded(rule: &Rule) -> Option<Masqueraded> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side: Side::Source, negated, value: Addresses::One(ip) } => {
            Some(Masqueraded::of(*negated, *ip))
        }
        _ => None,
    })
}

/// Returns the single source or destination address that a rule matches.
pub(crate) fn address(rule: &Rule, asked: Side) -> Option<IpAddr> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side, negated: false, value: Addresses::One(ip) } if *side == asked => Some(*ip),
        _ => None,
    })
}

/// Returns the single address and port that a rule matches.
pub(crate) fn frontend(rule: &Rule) -> Option<Frontend> {
    let (protocol, port) = rule.conditions.iter().find_map(Condition::as_destination_port)?;
    Some(Frontend { address: Some(address(rule, Side::Destination)?), port, protocol })
}

/// Returns the address and port of an element's key: `10.0.0.1 . tcp . 80`, or `tcp . 30080` of node ports.
pub(crate) fn frontend_of_key(key: &[Key]) -> Option<Frontend> {
    match *key {
        [Key::Address(ip), Key::Protocol(protocol), Key::Port(port)] => {
            Some(Frontend { address: Some(ip), port, protocol })
        }
        [Key::Protocol(protocol), Key::Port(port)] => Some(Frontend { address: None, port, protocol }),
        _ => None,
    }
}

/// Returns the probability of one of the values of a statement's `numgen`; nothing if it is certain.
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

/// Returns how many numbers of a statement's `numgen` have no value, and the modulus.
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

/// Returns the side of the packet and the set that a rule looks up for affinity.
pub(super) fn recalled(rule: &Rule) -> Option<(Side, &str)> {
    rule.conditions.iter().find_map(|condition| match condition {
        Condition::Address { side, negated: false, value: Addresses::Set(set) } => Some((*side, &**set)),
        _ => None,
    })
}

/// Returns the sets to which a rule adds clients.
pub(super) fn notes(rule: &Rule) -> Vec<Note<'_>> {
    let noted = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Remember(side, set) => Some((*side == Side::Destination, &**set)),
        _ => None,
    });
    let is_plain = rule.conditions.is_empty();
    noted.map(|(destination, list)| Note { list, key: Remembered { destination, mask: None }, is_plain }).collect()
}

/// Returns the protocol that a rule matches.
pub(super) fn protocol(rule: &Rule) -> Option<Protocol> {
    rule.conditions.iter().find_map(Condition::as_protocol)
}
