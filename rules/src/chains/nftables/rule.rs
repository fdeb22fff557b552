//! Reading of single rules and elements.

use std::net::{IpAddr, SocketAddr};

use super::NAMING;
use crate::chains::{Chance, Frontend, Key as Remembered, Masqueraded, Note};
use crate::cluster::{Family, Protocol};
use crate::digits;
use crate::nftables::{
    Addresses, Condition, Key, MarkChange, Name, Numgen, NumgenMode, Rule, Side, Statement, Verdict, print_rule,
};

/// The chain that marks packets for masquerading.
pub(super) const MASQUERADE: &str = "mark-for-masquerade";

/// The targets of a balancing rule.
pub(crate) struct Balance<'a> {
    /// The targets, each with its number of the 2^32 draws.
    pub(crate) targets: Vec<(Target<'a>, u32)>,
    /// Whether all draws have a target, and all targets equally many.
    pub(crate) is_even: bool,
}

/// A target of a balancing rule.
pub(crate) enum Target<'a> {
    /// The chain of an endpoint.
    Chain(&'a Name),
    /// The endpoint itself.
    Endpoint(String),
}

/// Returns the targets of a balancing rule that matches nothing but this protocol.
pub(crate) fn balance<'a>(rule: &'a Rule, protocol: &str) -> Option<Balance<'a>> {
    let of_protocol = match rule.conditions.as_slice() {
        [asked] => asked.as_protocol().is_some_and(|asked| asked.as_str() == protocol),
        _ => false,
    };
    let text = |address: &SocketAddr| digits::socket(*address).to_string();
    match rule.statements.as_slice() {
        [Statement::Balance(verdicts)] if rule.conditions.is_empty() => {
            divided(verdicts, |verdict| verdict.chain().map(Target::Chain))
        }
        // As people shorten it for a single endpoint.
        [Statement::Verdict(Verdict::Goto(chain) | Verdict::Jump(chain))]
            if rule.conditions.is_empty() && NAMING.is_endpoint(chain) =>
        {
            Some(Balance { targets: vec![(Target::Chain(chain), u32::MAX)], is_even: true })
        }
        [Statement::BalanceDnat(all)] if of_protocol => divided(all, |one| Some(Target::Endpoint(text(one)))),
        [Statement::Dnat(one)] if of_protocol => {
            Some(Balance { targets: vec![(Target::Endpoint(text(one)), u32::MAX)], is_even: true })
        }
        _ => None,
    }
}

/// Returns the targets of a random number.
fn divided<'a, T>(numgen: &'a Numgen<T>, target: impl Fn(&'a T) -> Option<Target<'a>>) -> Option<Balance<'a>> {
    let drawn = |(at, value)| Some((target(value)?, numgen.draws(at)?));
    let targets: Vec<(Target<'a>, u32)> = numgen.iter().enumerate().filter_map(drawn).collect();
    let is_even = numgen.is_even() && targets.len() == numgen.len();
    (numgen.mode == NumgenMode::Random && !targets.is_empty()).then_some(Balance { targets, is_even })
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

/// Returns the probability of one of the chains or destinations of a statement's `numgen`; nothing if it is certain.
pub(super) fn drawn(statement: &Statement, choice: usize) -> Option<Chance> {
    match statement {
        Statement::Balance(verdicts) => {
            let mut leading = (0..).zip(verdicts.iter()).filter(|(_, verdict)| verdict.chain().is_some());
            chance(verdicts, leading.nth(choice)?.0)
        }
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
        // Without a chain it balances nothing.
        Statement::Balance(verdicts) if verdicts.iter().any(|verdict| verdict.chain().is_some()) => {
            (verdicts.without_value(), verdicts.modulus)
        }
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
