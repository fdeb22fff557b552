//! A builder of rules, condition by condition.

use std::net::IpAddr;

use super::super::Rule;
use super::super::name::Name;
use super::super::{Addresses, Condition, LookupKey, Side, Statement, Verdict};
use crate::cluster::Protocol;

/// Creates a rule without conditions.
pub(super) fn rule() -> Rule {
    Rule::default()
}

/// `ip daddr . meta l4proto . th dport`.
pub(super) const ADDRESS_AND_PORT: [LookupKey; 3] =
    [LookupKey::Address(Side::Destination), LookupKey::Protocol, LookupKey::DestinationPort];

/// `meta l4proto . th dport`.
pub(super) const PORT: [LookupKey; 2] = [LookupKey::Protocol, LookupKey::DestinationPort];

impl Rule {
    /// Adds a condition.
    pub(super) fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Matches an address.
    pub(super) fn with_address(self, side: Side, address: IpAddr) -> Self {
        self.when(Condition::Address { side, negated: false, value: Addresses::One(address) })
    }

    /// Matches the addresses of a set.
    pub(super) fn with_address_in(self, side: Side, set: &Name) -> Self {
        self.when(Condition::Address { side, negated: false, value: Addresses::Set(set.clone()) })
    }

    /// Sets the protocol.
    pub(super) fn of(self, protocol: Protocol) -> Self {
        self.when(Condition::protocol(protocol))
    }

    /// Adds a statement.
    pub(super) fn then(mut self, statement: Statement) -> Self {
        self.statements.push(statement);
        self
    }

    /// Adds a jump.
    pub(super) fn jump(self, chain: &str) -> Self {
        self.then(Statement::Verdict(Verdict::Jump(chain.into())))
    }

    /// Adds a goto.
    pub(super) fn goto(self, chain: &Name) -> Self {
        self.then(Statement::Verdict(Verdict::Goto(chain.clone())))
    }

    /// Adds a lookup in a verdict map.
    pub(super) fn look_up(self, key: &[LookupKey], map: &str) -> Self {
        self.then(Statement::Lookup(key.to_vec(), map.into()))
    }

    /// Sets the comment.
    pub(super) fn commented(mut self, text: &str) -> Self {
        self.comment = Some(text.into());
        self
    }
}
