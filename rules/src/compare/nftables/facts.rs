//! Facts stated by single rules and elements.

use std::net::SocketAddr;

use crate::chains::Kind;
use crate::chains::nftables::{frontend, marks};
use crate::cluster::Protocol;
use crate::compare::finding::Fact;
use crate::digits;
use crate::nftables::{Addresses, Condition, Key, Rule, Side, Statement, Verdict};

/// Returns the endpoint's chain to which a rule sends returning clients.
pub(super) fn affinity(rule: &Rule) -> Option<&str> {
    let [Condition::Address { side: Side::Source, negated: false, value: Addresses::Set(set) }] = &*rule.conditions
    else {
        return None;
    };
    match rule.statements.as_slice() {
        [Statement::Verdict(Verdict::Goto(chain))] if set.starts_with("affinity-") => Some(chain),
        _ => None,
    }
}

/// Returns what any other rule of a service's chain states.
pub(super) fn in_chain(kind: Kind, rule: &Rule) -> Option<Fact> {
    match rule.statements.as_slice() {
        [statement] if marks(statement) => match (kind, frontend(rule)) {
            (Kind::External, None) => Some(Fact::Masquerade(None)),
            (_, address) => address.map(|address| Fact::Masquerade(Some(address))),
        },
        [Statement::Verdict(Verdict::Drop)] if kind == Kind::Firewall => Some(Fact::RejectResponse(None)),
        _ => None,
    }
}

/// Returns what a rule of an endpoint's chain states.
pub(super) fn in_endpoint(rule: &Rule, endpoint: &str) -> Option<Fact> {
    match rule.statements.as_slice() {
        [Statement::Dnat(_)] => Some(Fact::Translation(endpoint.to_owned())),
        [Statement::Remember(Side::Source, _)] => Some(Fact::Memory(endpoint.to_owned())),
        [statement] if marks(statement) => Some(Fact::Hairpin(endpoint.to_owned())),
        _ => None,
    }
}

/// Returns the endpoint of a connection to itself: `10.0.0.1 . 10.0.0.1 . tcp . 8080`.
pub(super) fn hairpin(key: &[Key]) -> Option<(String, Protocol)> {
    match *key {
        [Key::Address(from), Key::Address(to), Key::Protocol(protocol), Key::Port(port)] if from == to => {
            Some((digits::socket(SocketAddr::new(to, port)).to_string(), protocol))
        }
        _ => None,
    }
}
